%% Makes this VM a node on localhost, and no node again. Starts epmd where none runs, and ends one
%% that it started, unless others use it by now.
-module(etls_test_node).

-export([start/0, stop/0, name/1, with_epmd/0, names/0]).

-define(BOUND, 10000).

start() ->
    ok = with_epmd(),
    {ok, _} = net_kernel:start([list_to_atom(name("ct")), shortnames]),
    %% Not the user's: what is tried here with cookies is nobody else's business.
    true = erlang:set_cookie(node(), list_to_atom("c" ++ integer_to_list(rand:uniform(1 bsl 60)))),
    ok.

stop() ->
    case node() of
        nonode@nohost ->
            ok;
        Node ->
            ok = net_kernel:stop(),
            [Own | _] = string:split(atom_to_list(Node), "@"),
            ok = etls_test_lib:eventually(fun() -> false = lists:member(Own, names()), ok end)
    end,
    case persistent_term:erase(?MODULE) of
        %% It refuses while anybody is registered.
        true -> _ = os:cmd("epmd -kill"), ok;
        false -> ok
    end.

%% One that no other VM has, nor had before: epmd forgets a name only when it notices the end.
name(What) ->
    lists:flatten(io_lib:format("etls_~s_~s_~b@localhost",
                                [What, os:getpid(), erlang:unique_integer([positive])])).

with_epmd() ->
    case erl_epmd:names(localhost) of
        {ok, _} ->
            ok;
        {error, _} ->
            _ = os:cmd("epmd -daemon"),
            ok = persistent_term:put(?MODULE, started),
            etls_test_lib:eventually(fun() -> {ok, _} = erl_epmd:names(localhost), ok end, ?BOUND)
    end.

names() ->
    case erl_epmd:names(localhost) of
        {ok, Names} -> [Name || {Name, _Port} <- Names];
        {error, _} -> []
    end.
