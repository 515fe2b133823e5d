%% A program at the other end (openssl, gnutls), run through a port. It is killed when the process
%% that started it ends, and by the kernel when the VM does.
-module(etls_test_peer).

-export([start/2, send/2, os_pid/1, end_input/1, expect/3, stop/1, exit_status/2, free_port/0]).

%% Output says what becomes of what the program writes: `echo` gives it back to the program,
%% `tell` sends it as {peer, Peer, Data} to the caller, `drop` drops it. Its stderr goes to a log.
-spec start([string()], #{output := echo | tell | drop, log := file:filename()}) -> pid().
start(Command, #{output := Output, log := Log}) ->
    Owner = self(),
    Tag = make_ref(),
    Peer = spawn(fun() -> init(Owner, Tag, Command, Output, Log) end),
    receive {Tag, started} -> Peer after 5000 -> error(timeout) end.

%% Gives Data to the program's stdin.
send(Peer, Data) ->
    Peer ! {send, Data},
    ok.

%% Closes its stdin, and its stdout with it; it is not killed.
end_input(Peer) ->
    Ref = make_ref(),
    Peer ! {end_input, self(), Ref},
    receive {Ref, ok} -> ok after 5000 -> error(timeout) end.

%% Of the program itself, as a string.
os_pid(Peer) ->
    Ref = make_ref(),
    Peer ! {os_pid, self(), Ref},
    receive {Ref, OsPid} -> integer_to_list(OsPid) after 5000 -> error(timeout) end.

%% Waits until the program, started with `tell`, has written something with Pattern in it.
expect(Peer, Pattern, Timeout) ->
    expect(Peer, Pattern, Timeout, <<>>).

expect(Peer, Pattern, Timeout, Seen) ->
    case binary:match(Seen, Pattern) of
        nomatch ->
            receive
                {peer, Peer, Data} ->
                    expect(Peer, Pattern, Timeout, <<Seen/binary, Data/binary>>)
            after Timeout -> error({not_seen, Pattern, Seen})
            end;
        _ -> Seen
    end.

stop(Peer) ->
    Monitor = monitor(process, Peer),
    Peer ! stop,
    receive {'DOWN', Monitor, process, Peer, _} -> ok after 5000 -> error(timeout) end.

%% Waits for the program's own end.
exit_status(Peer, Timeout) ->
    Ref = make_ref(),
    Peer ! {status, self(), Ref},
    receive {Ref, Status} -> Status
    after Timeout -> error(timeout)
    end.

%% A port nobody uses now, for a server that cannot be asked for port 0.
free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

init(Owner, Tag, Command, Output, Log) ->
    process_flag(trap_exit, true),
    _ = monitor(process, Owner),
    Shell = "log=$1; shift; exec setpriv --pdeathsig KILL \"$@\" 2>>\"$log\"",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Shell, "sh", Log | Command]}, binary, exit_status, use_stdio]),
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    Owner ! {Tag, started},
    loop(Port, OsPid, Owner, Output).

loop(Port, OsPid, Owner, Output) ->
    receive
        {Port, {data, Data}} ->
            _ = case Output of
                    echo -> give(Port, Data);
                    tell -> Owner ! {peer, self(), Data};
                    drop -> ok
                end,
            loop(Port, OsPid, Owner, Output);
        {send, Data} ->
            give(Port, Data),
            loop(Port, OsPid, Owner, Output);
        {end_input, From, Ref} ->
            true = port_close(Port),
            From ! {Ref, ok},
            without_input(OsPid, Owner);
        {os_pid, From, Ref} ->
            From ! {Ref, OsPid},
            loop(Port, OsPid, Owner, Output);
        {Port, {exit_status, Status}} ->
            exited(Status, Owner);
        {'EXIT', Port, _} ->
            loop(Port, OsPid, Owner, Output);
        stop ->
            kill(OsPid);
        {'DOWN', _, process, Owner, _} ->
            kill(OsPid)
    end.

without_input(OsPid, Owner) ->
    receive
        {'EXIT', _, _} -> without_input(OsPid, Owner);
        stop -> kill(OsPid);
        {'DOWN', _, process, Owner, _} -> kill(OsPid)
    end.

exited(Status, Owner) ->
    receive
        {status, From, Ref} -> From ! {Ref, Status}, exited(Status, Owner);
        stop -> ok;
        {'DOWN', _, process, Owner, _} -> ok
    end.

%% The program may be gone already: its exit status is on the way then.
give(Port, Data) ->
    try port_command(Port, Data)
    catch error:badarg -> false
    end.

kill(OsPid) ->
    os:cmd("kill -9 " ++ integer_to_list(OsPid)).
