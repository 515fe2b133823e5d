%% @private
%% The link of a daemon that is this VM's child: frames on its stdin and stdout.
-module(etls_link_port).

-behaviour(etls_link).

-export([open/1, send/2, event/2, close/1]).

-spec open(etls_link:config()) -> {ok, port()} | {error, term()}.
open(#{threads := Threads, log_level := Level, args := More}) ->
    Path = executable(),
    Args = ["--port", "--log-level", atom_to_list(Level)] ++ threads(Threads) ++ More,
    Options = [{args, Args}, {packet, 4}, binary, exit_status, hide],
    try
        {ok, open_port({spawn_executable, Path}, Options)}
    catch
        error:Reason -> {error, {cannot_start_daemon, Path, Reason}}
    end.

threads(default) -> [];
threads(Count) -> ["--threads", integer_to_list(Count)].

%% The OS variable is for running another build (a sanitizer's) under an unchanged configuration.
executable() ->
    case {os:getenv("ETLSD"), application:get_env(etls, daemon, default)} of
        {Path, _} when is_list(Path), Path =/= "" -> Path;
        {_, default} -> filename:join(priv_dir(), "etlsd");
        {_, Path} -> Path
    end.

priv_dir() ->
    case code:priv_dir(etls) of
        {error, bad_name} ->
            Ebin = filename:dirname(code:which(?MODULE)),
            filename:join(filename:dirname(Ebin), "priv");
        Directory ->
            Directory
    end.

-spec send(port(), iodata()) -> ok | {error, closed}.
send(Port, Frame) ->
    try
        true = port_command(Port, Frame),
        ok
    catch
        error:badarg -> {error, closed}
    end.

-spec event(port(), term()) -> {frame, binary()} | {down, term()} | unknown.
event(Port, {Port, {data, Frame}}) -> {frame, Frame};
event(Port, {Port, {exit_status, Status}}) -> {down, {exit_status, Status}};
event(Port, {'EXIT', Port, Reason}) -> {down, Reason};
event(_Port, _Message) -> unknown.

-spec close(port()) -> ok.
close(Port) ->
    try port_close(Port) of
        true -> ok
    catch
        error:badarg -> ok
    end.
