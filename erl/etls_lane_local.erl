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

%% Messages smaller than this do not promise more: the next ones get a buffer of this size. Going
%% active, inet takes a buffer and keeps it until something comes: 128 KiB per idle connection.
-define(FEW, 4096).

%% Of those many are armed, which comes to a quarter of what a portion of large ones may bring. Each
%% time a lane goes passive and active again costs the VM two epoll_ctl and the place of its
%% descriptor among those that the schedulers poll themselves.
-define(SMALL_PORTION, 128).

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
    % The buffer's size comes with the next arming: what is armed was counted with the present one.
    inet:setopts(Lane, [Option || {Name, _} = Option <- Options, Name =/= buffer]).

-spec arm(gen_tcp:socket(), pos_integer(), non_neg_integer()) -> ok | {error, atom()}.
arm(Lane, Buffer, Last) when Last >= ?FEW; Buffer =< ?FEW ->
    inet:setopts(Lane, [{buffer, Buffer}, {active, ?PORTION}]);
arm(Lane, _Buffer, _Last) ->
    inet:setopts(Lane, [{buffer, ?FEW}, {active, ?SMALL_PORTION}]).

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
