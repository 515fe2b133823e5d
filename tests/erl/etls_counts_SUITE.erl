%% The cost of data in system calls of the daemon, as counts: a guard against regressions of the hot
%% path that needs no clock. strace(1) counts; where it may not attach, the cases are skipped.
-module(etls_counts_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("common_test/include/ct.hrl").

-export([all/0, groups/0, suite/0, init_per_suite/1, end_per_suite/1,
         init_per_group/2, end_per_group/2]).
-export([system_calls_per_request/1, system_calls_per_megabyte/1]).

-import(etls_test_lib, [pair/1, in_process/1, result/1]).

-define(BOUND, 20000).
-define(REQUESTS, 500).
-define(MEGABYTES, 64).

suite() -> [{timetrap, {minutes, 2}}].

%% Link lanes cross the link's own loop, whose calls depend on how terms gather.
all() -> [{group, port_local}].

groups() -> [{port_local, [], [system_calls_per_request, system_calls_per_megabyte]}].

init_per_suite(Config) ->
    case os:find_executable("strace") of
        false -> {skip, "strace is not installed"};
        Strace -> [{strace, Strace} | etls_test_lib:prepare(Config)]
    end.

end_per_suite(_Config) -> ok.

init_per_group(Name, Config) ->
    Entered = etls_test_lib:enter(Name, Config),
    try counted(Entered, fun() -> ok end) of
        _ -> Entered
    catch
        throw:no_tracing -> {skip, "strace may not attach to the daemon here"}
    end.

end_per_group(_Name, Config) -> etls_test_lib:leave(Config).

%% A 64-byte request and its answer cross four connection ends: four reads and four writes, and at
%% most one wait before each read. Nothing is tried in vain, nothing is armed again (epoll_ctl).
system_calls_per_request(Config) ->
    {Client, Server} = pair(Config),
    Request = <<0:64/unit:8>>,
    Echo = in_process(fun() -> echo(Server, byte_size(Request)) end),
    ok = ask(Client, Request, 10),
    Counts = counted(Config, fun() -> ok = ask(Client, Request, ?REQUESTS) end),
    ok = etls:close(Client),
    done = result(Echo),
    Per = maps:map(fun(_, Count) -> Count / ?REQUESTS end, Counts),
    ct:pal("per request: ~p", [Per]),
    ?assert(maps:get("recvfrom", Per) =< 4.1),
    ?assert(maps:get("sendto", Per) =< 4.1),
    ?assert(maps:get("epoll_wait", Per) =< 4.5),
    ?assert(others(Per, ["recvfrom", "sendto", "epoll_wait"]) =< 0.2).

%% Measured: 13 reads and 15 writes. A record (16 KiB) at a time would be 244 of each.
system_calls_per_megabyte(Config) ->
    {Client, Server} = pair(Config),
    Block = crypto:strong_rand_bytes(1_000_000),
    Counts = counted(Config, fun() ->
        Sending = in_process(fun() ->
            [ok = etls:send(Client, Block) || _ <- lists:seq(1, ?MEGABYTES)],
            sent
        end),
        [{ok, Block} = etls:recv(Server, byte_size(Block), ?BOUND)
         || _ <- lists:seq(1, ?MEGABYTES)],
        sent = result(Sending)
    end),
    ok = etls:close(Client),
    Per = maps:map(fun(_, Count) -> Count / ?MEGABYTES end, Counts),
    ct:pal("per MB: ~p", [Per]),
    ?assert(maps:get("recvfrom", Per) =< 40),
    ?assert(maps:get("sendto", Per) =< 40),
    ?assert(others(Per, ["recvfrom", "sendto"]) =< 60).

echo(Socket, Size) ->
    case etls:recv(Socket, Size) of
        {ok, Data} ->
            ok = etls:send(Socket, Data),
            echo(Socket, Size);
        {error, closed} ->
            done
    end.

ask(_Socket, _Request, 0) ->
    ok;
ask(Socket, Request, Left) ->
    ok = etls:send(Socket, Request),
    {ok, Request} = etls:recv(Socket, byte_size(Request), ?BOUND),
    ask(Socket, Request, Left - 1).

others(Counts, Known) ->
    lists:sum(maps:values(maps:without(Known, Counts))).

%% The daemon's system calls, by name, while Work runs.
counted(Config, Work) ->
    File = filename:join(?config(priv_dir, Config), "strace"),
    Arguments = ["-f", "-c", "-o", File, "-p", etls_test_lib:daemon_os_pid()],
    Port = open_port({spawn_executable, ?config(strace, Config)},
                     [{args, Arguments}, stderr_to_stdout, {line, 1000}, exit_status]),
    ok = attached(Port),
    Work(),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -INT " ++ integer_to_list(Pid)),
    ok = ended(Port),
    {ok, Text} = file:read_file(File),
    maps:from_list(lists:filtermap(fun count/1, string:lexemes(binary_to_list(Text), "\n"))).

attached(Port) ->
    receive
        {Port, {data, {_, Line}}} ->
            case string:find(Line, "attached") of
                nomatch -> attached(Port);
                _ -> ok
            end;
        {Port, {exit_status, _}} ->
            throw(no_tracing)
    after ?BOUND -> error(strace_says_nothing)
    end.

ended(Port) ->
    receive
        {Port, {exit_status, _}} -> ok;
        {Port, {data, _}} -> ended(Port)
    after ?BOUND -> error(strace_does_not_end)
    end.

%% % time, seconds, usecs/call, calls, errors or nothing, syscall
count(Line) ->
    case string:lexemes(Line, " ") of
        [_, _, _, _, "total"] -> false;
        [_, _, _, _, _, "total"] -> false;
        [_, _, _, Calls | Rest] when Rest =/= [] ->
            case string:to_integer(Calls) of
                {Count, ""} -> {true, {lists:last(Rest), Count}};
                _ -> false
            end;
        _ -> false
    end.
