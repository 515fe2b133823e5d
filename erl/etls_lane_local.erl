%% @private
%% A lane that is an AF_UNIX stream socket to the daemon, in the VM's own inet driver.
-module(etls_lane_local).

-behaviour(etls_lane).

-export([open/2, send/2, set/2, arm/3, event/2, shutdown/1, close/1]).

%% Kernel buffer for what we send. Measured on 10 connections in bulk: 256 KiB costs the VM a tenth
%% less than the default of 208 KiB; 1 MiB costs the daemon more, whose reads then miss the cache.
-define(SEND_BUFFER, 262144).

%% Messages per arming. One setopts per 16 reads of up to `buffer' bytes costs next to nothing, and
%% keeps what may arrive after we stopped asking to 16 x 128 KiB.
-define(PORTION, 16).

%% Messages smaller than this do not promise more.
-define(FEW, 4096).

%% Connecting to a local socket takes microseconds; a daemon that takes this long is stuck.
-define(CONNECT_TIMEOUT, 5000).

-spec open(etls_lane:place(), [etls_lane:option()]) -> {ok, gen_tcp:socket()} | {error, atom()}.
open(#{link := #{lane_address := Address}, token := Token}, Options) ->
    % exit_on_close false: after the daemon's half-close we may still send.
    Fixed = [
        binary,
        {active, false},
        {packet, raw},
        {exit_on_close, false},
        {show_econnreset, true},
        {sndbuf, ?SEND_BUFFER}
    ],
    case gen_tcp:connect(Address, 0, Fixed ++ Options, ?CONNECT_TIMEOUT) of
        {ok, Lane} ->
            case gen_tcp:send(Lane, Token) of
                ok ->
                    {ok, Lane};
                {error, Reason} ->
                    ok = close(Lane),
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec send(gen_tcp:socket(), iodata()) -> ok | {error, atom()}.
send(Lane, Data) ->
    case gen_tcp:send(Lane, Data) of
        ok -> ok;
        {error, einval} -> {error, einval_or_closed(Lane)};
        {error, timeout} -> {error, timeout};
        {error, {timeout, _}} -> {error, timeout};
        {error, Reason} when Reason =:= enomem; Reason =:= enobufs -> {error, Reason};
        % epipe, econnreset, enotconn: one way or another it is not there any more.
        {error, _} -> {error, closed}
    end.

%% inet answers einval for bad data and for a port that was closed this very moment.
einval_or_closed(Lane) ->
    case erlang:port_info(Lane, id) of
        undefined -> closed;
        _ -> einval
    end.

-spec set(gen_tcp:socket(), [etls_lane:option()]) -> ok | {error, atom()}.
set(Lane, Options) ->
    inet:setopts(Lane, Options).

-spec arm(gen_tcp:socket(), pos_integer(), non_neg_integer()) -> ok | {error, atom()}.
arm(Lane, Buffer, Last) when Last >= ?FEW; Buffer =< ?FEW ->
    inet:setopts(Lane, [{active, ?PORTION}]);
arm(Lane, Buffer, _Last) ->
    % Going active, inet takes a buffer of the present size and keeps it until something comes: 128
    % KiB per idle connection. So it gets a small one now, the next is of full size.
    case inet:setopts(Lane, [{buffer, ?FEW}, {active, ?PORTION}]) of
        ok -> inet:setopts(Lane, [{buffer, Buffer}]);
        {error, Reason} -> {error, Reason}
    end.

-spec event(gen_tcp:socket(), term()) -> etls_lane:event().
event(Lane, {tcp, Lane, Data}) -> {data, Data};
event(Lane, {tcp_passive, Lane}) -> unarmed;
event(Lane, {tcp_closed, Lane}) -> eof;
event(Lane, {tcp_error, Lane, _}) -> failed;
event(Lane, {'EXIT', Lane, _}) -> eof;
event(_Lane, _Message) -> unknown.

-spec shutdown(gen_tcp:socket()) -> ok.
shutdown(Lane) ->
    % The driver sends what it has queued first. An error: it is closed already.
    _ = gen_tcp:shutdown(Lane, write),
    ok.

-spec close(gen_tcp:socket()) -> ok.
close(Lane) ->
    % Not gen_tcp:close/1, which would wait here for the driver's queue; port_close flushes it too.
    true = unlink(Lane),
    try port_close(Lane) of
        true -> ok
    catch
        error:badarg -> ok
    end.
