%% etlsd as an operator meets it: flags, exit statuses, signals, surroundings. It is run here by
%% itself, without the application.
-module(etls_daemon_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([
    a_bad_flag_is_one_line_and_status_2/1,
    version_tells_every_library/1,
    help_tells_every_mode/1,
    the_end_of_input_ends_it_with_status_0/1,
    each_ending_signal_leaves_nothing_behind/1,
    closed_standard_descriptors_are_no_obstacle/1,
    a_temporary_directory_that_is_none_is_passed_over/1,
    a_host_that_is_a_wildcard_is_no_host/1,
    a_frame_over_the_limit_ends_it_with_status_4/1,
    nonsense_is_answered_and_does_not_end_it/1
]).

-import(etls_test_raw, [exit_status/1]).

-define(BOUND, 5000).
-define(LIMIT, 16777216).

suite() -> [{timetrap, {seconds, 30}}].

all() ->
    [
        a_bad_flag_is_one_line_and_status_2,
        version_tells_every_library,
        help_tells_every_mode,
        the_end_of_input_ends_it_with_status_0,
        each_ending_signal_leaves_nothing_behind,
        closed_standard_descriptors_are_no_obstacle,
        a_temporary_directory_that_is_none_is_passed_over,
        a_host_that_is_a_wildcard_is_no_host,
        a_frame_over_the_limit_ends_it_with_status_4,
        nonsense_is_answered_and_does_not_end_it
    ].

a_bad_flag_is_one_line_and_status_2(_Config) ->
    lists:foreach(
        fun(Flags) ->
            Lines = string:lexemes(os:cmd(etlsd() ++ " " ++ Flags ++ " 2>&1; echo $?"), "\n"),
            ?assertMatch({_, ["etlsd: " ++ _, "2"]}, {Flags, Lines})
        end,
        ["", "--nonsense", "--port stray", "--port --threads 0", "--listen 127.0.0.1:0 --echo"]
    ).

version_tells_every_library(_Config) ->
    Text = os:cmd(etlsd() ++ " --version"),
    [
        ?assertMatch({match, _}, re:run(Text, Pattern, [multiline]))
     || Pattern <- ["^etlsd [0-9.]+$", "^OpenSSL 3", "^Boost 1", "^ei [0-9.]+$", "^CPU "]
    ].

help_tells_every_mode(_Config) ->
    Text = os:cmd(etlsd() ++ " --help"),
    [
        ?assertNotEqual(nomatch, string:find(Text, Flag))
     || Flag <- ["--port", "--listen", "--connect", "--echo", "--threads", "--log-level"]
    ].

the_end_of_input_ends_it_with_status_0(_Config) ->
    ?assertEqual("0\n", os:cmd(etlsd() ++ " --port </dev/null >/dev/null; echo $?")),
    ?assertEqual("0\n", os:cmd("true | " ++ etlsd() ++ " --port >/dev/null; echo $?")).

each_ending_signal_leaves_nothing_behind(_Config) ->
    lists:foreach(
        fun(Signal) ->
            {Port, Pid, Path} = start([]),
            ?assert(exists(Path)),
            _ = os:cmd("kill -" ++ Signal ++ " " ++ integer_to_list(Pid)),
            ?assertEqual({Signal, 0}, {Signal, exit_status(Port)}),
            ?assertNot(exists(filename:dirname(Path)))
        end,
        ["TERM", "INT", "HUP"]
    ).

closed_standard_descriptors_are_no_obstacle(_Config) ->
    ?assertEqual("0\n", os:cmd(etlsd() ++ " --port <&- >&- 2>&-; echo $?")),
    ?assertEqual("2\n", os:cmd(etlsd() ++ " --nonsense <&- 2>&-; echo $?")).

a_temporary_directory_that_is_none_is_passed_over(_Config) ->
    None = code:which(?MODULE),
    {Port, _Pid, Path} = start([{"TMPDIR", None}, {"XDG_RUNTIME_DIR", "/nonexistent"}]),
    ?assertEqual(["/", "tmp"], lists:sublist(filename:split(Path), 2)),
    ok = stop(Port).

a_host_that_is_a_wildcard_is_no_host(_Config) ->
    {Port, _Pid, _Path} = start([]),
    Arguments = #{host => <<"*">>, port => 1},
    ?assertEqual({error, nxdomain}, ask(Port, connect, Arguments)),
    ok = stop(Port).

a_frame_over_the_limit_ends_it_with_status_4(_Config) ->
    % Its length is enough.
    Port = open_port({spawn_executable, etlsd()}, [{args, ["--port"]}, binary, exit_status]),
    true = port_command(Port, <<(?LIMIT + 1):32>>),
    ?assertEqual(4, exit_status(Port)).

nonsense_is_answered_and_does_not_end_it(_Config) ->
    {Port, _Pid, _Path} = start([]),
    [
        true = port_command(Port, Frame)
     || Frame <- [<<>>, <<131>>, <<0, 1, 2>>, term_to_binary(hello), <<131, 109, -1:32>>]
    ],
    ?assertEqual({error, {unknown_command, fly}}, ask(Port, fly, #{})),
    ?assertMatch({error, {bad_request, _}}, ask(Port, accept, #{listener => one})),
    ?assertEqual({error, closed}, ask(Port, accept, #{listener => 1})),
    ok = stop(Port).

%% --- helpers ---------------------------------------------------------------------------------

etlsd() ->
    case os:getenv("ETLSD") of
        false -> filename:join(code:priv_dir(etls), "etlsd");
        Path -> Path
    end.

%% A daemon on a port of our own, and where its lanes are.
start(Env) ->
    Port = open_port({spawn_executable, etlsd()}, [
        {args, ["--port"]}, {env, Env}, {packet, 4}, binary, exit_status
    ]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    {ok, #{lane := {local, Path}}} = ask(Port, hello, #{protocol => etls_protocol:version()}),
    {Port, Pid, binary_to_list(Path)}.

ask(Port, Command, Arguments) ->
    Id = erlang:unique_integer([positive]),
    true = port_command(Port, term_to_binary({request, Id, Command, Arguments})),
    answer(Port, Id).

%% Log lines come in between.
answer(Port, Id) ->
    receive
        {Port, {data, Frame}} ->
            case binary_to_term(Frame) of
                {reply, Id, Result} -> Result;
                {event, log, _} -> answer(Port, Id)
            end
    after ?BOUND -> error({no_answer, Id})
    end.

stop(Port) ->
    ?assertEqual(ok, ask(Port, stop, #{})),
    ?assertEqual(0, exit_status(Port)),
    ok.

exists(Path) ->
    case file:read_file_info(Path) of
        {ok, _} -> true;
        {error, enoent} -> false
    end.
