%% @private
%% A lane whose data are terms on the link, with credit in bytes both ways (proto/PROTOCOL.md, 6).
%% Its sending half is a process (etls_lane_writer), which holds the credit and keeps each send in
%% one piece. Its reading half is the etls_socket's, to which etls_daemon hands what comes.
-module(etls_lane_link).

-behaviour(etls_lane).

-export([open/2, send/2, set/2, arm/3, event/2, shutdown/1, close/1]).

%% What the daemon may send before more is granted, bytes: what a reader that stands still costs
%% here. Less than 256 KiB shows in bulk, more does not help.
-define(WINDOW, 524288).

-record(lane, {
    conn :: integer(),
    writer :: pid(),
    %% Granted, and not come yet: bytes.
    granted :: atomics:atomics_ref(),
    module :: module(),
    handle :: term(),
    %% Of the link, whose end is the lane's.
    monitor :: reference()
}).

-spec open(etls_lane:place(), [etls_lane:option()]) -> {ok, #lane{}} | {error, atom()}.
open(#{link := Link, conn := Conn}, Options) ->
    #{pid := Daemon, module := Module, handle := Handle} = Link,
    Start = #{link => Link, conn => Conn, socket => self(), options => Options},
    try supervisor:start_child(etls_lane_sup, [Start]) of
        {ok, Writer} when is_pid(Writer) ->
            {ok, #lane{
                conn = Conn,
                writer = Writer,
                granted = atomics:new(1, [{signed, true}]),
                module = Module,
                handle = Handle,
                monitor = monitor(process, Daemon)
            }};
        {error, _} ->
            {error, closed}
    catch
        exit:_ -> {error, closed}
    end.

-spec send(#lane{}, iodata()) -> ok | {error, atom()}.
send(#lane{writer = Writer}, Data) ->
    try erlang:iolist_to_iovec(Data) of
        Pieces -> etls_lane_writer:send(Writer, Pieces)
    catch
        error:badarg -> {error, einval}
    end.

-spec set(#lane{}, [etls_lane:option()]) -> ok.
set(#lane{writer = Writer}, Options) ->
    etls_lane_writer:set(Writer, Options).

-spec arm(#lane{}, pos_integer(), non_neg_integer()) -> ok | {error, atom()}.
arm(#lane{conn = Conn, granted = Granted, module = Module, handle = Handle}, _Buffer, _Last) ->
    case ?WINDOW - atomics:get(Granted, 1) of
        More when More > 0 ->
            ok = atomics:add(Granted, 1, More),
            Module:lane(Handle, {credit, Conn, More});
        _ ->
            ok
    end.

-spec event(#lane{}, term()) -> etls_lane:event().
event(#lane{conn = Conn, granted = Granted}, {etls_lane, Conn, What}) ->
    case What of
        {data, Data} ->
            case atomics:sub_get(Granted, 1, byte_size(Data)) of
                % Half is under way while more is asked for.
                Left when Left =< ?WINDOW div 2 -> {last, Data};
                _ -> {data, Data}
            end;
        eof ->
            eof;
        hangup ->
            eof
    end;
event(#lane{monitor = Monitor}, {'DOWN', Monitor, process, _, _}) ->
    eof;
event(_Lane, _Message) ->
    unknown.

-spec shutdown(#lane{}) -> ok.
shutdown(#lane{writer = Writer}) ->
    etls_lane_writer:shutdown(Writer).

-spec close(#lane{}) -> ok.
close(#lane{writer = Writer, monitor = Monitor}) ->
    true = demonitor(Monitor, [flush]),
    etls_lane_writer:close(Writer).
