%% @private
%% The link of a daemon that is this VM's child: frames on its stdin and stdout.
-module(etls_link_port).

-behaviour(etls_link).

-export([open/1, greeted/2, request/4, lane/2, event/2, await_stop/2, close/1]).

-spec open(etls_link:config()) -> {ok, port()} | {error, term()}.
open(Config) ->
    Path = etls_link:executable(),
    Args = ["--port" | etls_link:flags(Config)],
    Options = [{args, Args}, {packet, 4}, binary, exit_status, hide],
    try
        {ok, open_port({spawn_executable, Path}, Options)}
    catch
        error:Reason -> {error, {cannot_start_daemon, Path, Reason}}
    end.

-spec greeted(port(), map()) -> ok.
greeted(_Port, _Hello) -> ok.

-spec request(
    port(), etls_protocol:id(), etls_protocol:command(), etls_protocol:arguments()
) -> ok | {error, closed}.
request(Port, Id, Command, Arguments) ->
    send(Port, etls_protocol:request(Id, Command, Arguments)).

-spec lane(port(), etls_protocol:lane_term()) -> ok | {error, closed}.
lane(Port, Term) ->
    send(Port, etls_protocol:lane(Term)).

send(Port, Frame) ->
    try
        true = port_command(Port, Frame),
        ok
    catch
        error:badarg -> {error, closed}
    end.

-spec event(port(), term()) -> {said, etls_protocol:frame()} | {down, term()} | unknown.
event(Port, {Port, {data, Frame}}) -> {said, etls_protocol:decode(Frame)};
event(Port, {Port, {exit_status, Status}}) -> {down, {exit_status, Status}};
event(Port, {'EXIT', Port, Reason}) -> {down, Reason};
event(_Port, _Message) -> unknown.

-spec await_stop(port(), non_neg_integer()) -> ok.
await_stop(Port, Timeout) ->
    receive
        {Port, {exit_status, _}} -> ok;
        {'EXIT', Port, _} -> ok
    after Timeout -> ok
    end.

-spec close(port()) -> ok.
close(Port) ->
    try port_close(Port) of
        true -> ok
    catch
        error:badarg -> ok
    end.
