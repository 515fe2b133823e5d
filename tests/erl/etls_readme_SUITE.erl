%% README.md keeps its word: what it shows runs, what it lists exists.
-module(etls_readme_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([
    all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2, end_per_group/2
]).
-export([
    server_and_client_run_as_shown/1,
    the_daemon_as_a_node_runs_as_shown/1,
    every_function_listed_is_exported/1,
    every_option_listed_is_known/1,
    every_flag_listed_is_in_the_help/1
]).

-define(BOUND, 10000).

all() ->
    [
        every_function_listed_is_exported,
        every_option_listed_is_known,
        every_flag_listed_is_in_the_help,
        the_daemon_as_a_node_runs_as_shown
        | etls_test_lib:all()
    ].

groups() -> etls_test_lib:combined([server_and_client_run_as_shown]).

init_per_suite(Config) ->
    ok = etls:start(),
    Root = root(proplists:get_value(data_dir, Config)),
    {ok, Text} = file:read_file(filename:join(Root, "README.md")),
    [{readme, Text} | Config].

end_per_suite(_Config) ->
    etls:stop().

init_per_group(Name, Config) -> etls_test_lib:configure(Name, Config).
end_per_group(_Name, Config) -> etls_test_lib:leave(Config).

%%% ---------------------------------------------------------------- cases

%% In an empty directory: the certificate by the command shown, then the server, then the client.
server_and_client_run_as_shown(Config) ->
    Readme = proplists:get_value(readme, Config),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "as_shown"),
    ok = filelib:ensure_path(Dir),
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Dir),
    try
        [Command] = blocks(Readme, "```sh\n(openssl req .*?)```"),
        Said = os:cmd(binary_to_list(Command)),
        ?assert(filelib:is_regular("cert.pem"), Said),
        Self = self(),
        [Server, Client] = [shown(Readme, Who) || Who <- ["server", "client"]],
        {Pid, Monitor} = spawn_monitor(fun() ->
            run(Server, fun
                ('Listener') -> Self ! listening;
                (_) -> ok
            end)
        end),
        receive
            listening -> ok;
            {'DOWN', Monitor, process, Pid, Early} -> ct:fail({server, Early})
        after ?BOUND -> ct:fail(not_listening)
        end,
        run(Client, fun(_) -> ok end),
        receive
            {'DOWN', Monitor, process, Pid, Reason} -> ?assertEqual(normal, Reason)
        after ?BOUND -> ct:fail(server_goes_on)
        end
    after
        ok = file:set_cwd(Before)
    end.

%% The daemon in one shell, a VM with its lines in another; only the daemon's name is made unique.
the_daemon_as_a_node_runs_as_shown(Config) ->
    Readme = proplists:get_value(readme, Config),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "as_a_node"),
    ok = filelib:ensure_path(Dir),
    [Certificate] = blocks(Readme, "```sh\n(openssl req .*?)```"),
    _ = os:cmd("cd " ++ Dir ++ " && " ++ binary_to_list(Certificate)),
    Name = "etlsd_" ++ os:getpid() ++ "_readme",
    Renamed = fun(Kind, Language) ->
        [Text] = blocks(Readme, "<!-- runs: " ++ Kind ++ " -->\n```" ++ Language ++ "\n(.*?)```"),
        re:replace(Text, "etlsd@localhost", Name ++ "@localhost", [global, {return, list}])
    end,
    Started = re:replace(
        Renamed("cnode", "sh"), "priv/etlsd", "exec " ++ etls_test_daemon:etlsd(), [{return, list}]
    ),
    Log = filename:join(Dir, "etlsd.log"),
    Daemon = etls_test_peer:start(
        ["sh", "-c", "cd " ++ Dir ++ "\n" ++ Started], #{output => drop, log => Log}
    ),
    etls_test_lib:eventually(fun() ->
        {ok, Said} = file:read_file(Log),
        ?assertMatch({match, _}, re:run(Said, "listens on 127"))
    end),
    Lines = string:trim(Renamed("node", "erlang"), trailing, ".\n"),
    Code = "ok = file:set_cwd(\"" ++ Dir ++ "\"), " ++ Lines ++ ", halt().",
    Paths = lists:append([["-pa", Path] || Path <- code:get_path(), Path =/= "."]),
    Vm = etls_test_peer:start(
        ["erl", "-noinput", "-sname", "a_" ++ os:getpid() ++ "@localhost", "-setcookie"] ++
            ["SECRET" | Paths] ++ ["-eval", Code],
        #{output => tell, log => filename:join(Dir, "vm.log")}
    ),
    _ = etls_test_peer:expect(Vm, <<"listeners => 1">>, 2 * ?BOUND),
    ok = etls_test_peer:stop(Vm),
    ok = etls_test_peer:stop(Daemon).

every_function_listed_is_exported(Config) ->
    Cells = first_cells(section("Functions", Config)),
    Names = lists:usort([Name || Cell <- Cells, Name <- words(Cell, "`(\\w+)\\(")]),
    ?assert(length(Names) > 15),
    Exported = [Name || {Name, _Arity} <- etls:module_info(exports)],
    ?assertEqual([], Names -- Exported).

%% A value that no option takes shows whether the option is known.
every_option_listed_is_known(Config) ->
    Cells = first_cells(section("Options", Config)),
    Names = lists:usort([Name || Cell <- Cells, Name <- words(Cell, "`\\{(\\w+),")]),
    ?assert(length(Names) > 25),
    Unknown = [Name || Name <- Names, not is_known(Name)],
    ?assertEqual([], Unknown).

is_known(Name) ->
    Wrong = [{Name, self()}],
    Answers = [etls:connect("127.0.0.1", 1, Wrong, ?BOUND), etls:listen(0, Wrong)],
    lists:any(fun(Answer) -> is_about_the_value(Name, Answer) end, Answers).

is_about_the_value(Name, {error, {options, {Name, Reason}}}) -> Reason =/= unknown;
is_about_the_value(_Name, _Answer) -> false.

every_flag_listed_is_in_the_help(Config) ->
    Cells = first_cells(section("The daemon on its own", Config)),
    Flags = [Flag || Cell <- Cells, Flag <- words(Cell, "(--[a-z-]+)")],
    ?assert(length(Flags) > 9),
    Daemon = filename:join(code:priv_dir(etls), "etlsd"),
    Help = os:cmd(Daemon ++ " --help"),
    Missing = [Flag || Flag <- Flags, string:find(Help, atom_to_list(Flag)) =:= nomatch],
    ?assertEqual([], Missing).

%%% ---------------------------------------------------------------- the text

root("/") ->
    error(no_readme);
root(Dir) ->
    case filelib:is_regular(filename:join([Dir, "proto", "PROTOCOL.md"])) of
        true -> Dir;
        false -> root(filename:dirname(string:trim(Dir, trailing, "/")))
    end.

shown(Readme, Who) ->
    [Text] = blocks(Readme, "<!-- runs: " ++ Who ++ " -->\n```erlang\n(.*?)```"),
    {ok, Tokens, _} = erl_scan:string(binary_to_list(Text)),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Expressions.

blocks(Text, Pattern) ->
    Options = [global, dotall, {capture, all_but_first, binary}],
    case re:run(Text, Pattern, Options) of
        {match, Found} -> [Block || [Block] <- Found];
        nomatch -> []
    end.

section(Title, Config) ->
    Readme = proplists:get_value(readme, Config),
    [Section] = blocks(Readme, "\n## " ++ Title ++ "\n(.*?)\n## "),
    Section.

%% Of each table row.
first_cells(Section) ->
    Options = [global, multiline, {capture, all_but_first, binary}],
    {match, Found} = re:run(Section, "^\\| ((?:[^|\\\\]|\\\\.)*)", Options),
    [Cell || [Cell] <- Found].

words(Cell, Pattern) ->
    case re:run(Cell, Pattern, [global, {capture, all_but_first, list}]) of
        {match, Found} -> [list_to_atom(Word) || [Word] <- Found];
        nomatch -> []
    end.

%% Runs expression after expression; Bound(Name) hears of each variable as it gets its value.
run(Expressions, Bound) ->
    lists:foldl(
        fun(Expression, Before) ->
            {value, _, After} = erl_eval:expr(Expression, Before),
            New = [Name || {Name, _} <- After] -- [Name || {Name, _} <- Before],
            lists:foreach(Bound, New),
            After
        end,
        [],
        Expressions
    ).
