%% @private
%% The link to a daemon that is a node of its own: terms by Erlang distribution, to the name `etlsd'
%% there. It runs already ({cnode, Node}), or it is started as this VM's child ({cnode, spawn}).
%%
%% The receiver is the session's owner in the daemon (proto/PROTOCOL.md, 7), and linked to its pid,
%% so that each hears of the other's end.
-module(etls_link_cnode).

-behaviour(etls_link).

-include_lib("kernel/include/logger.hrl").

-export([open/1, greeted/2, request/4, lane/2, event/2, await_stop/2, close/1]).

-define(REGISTERED_NAME, etlsd).

%% A daemon that was just started can be reached within milliseconds; under a sanitizer on a busy
%% machine within seconds.
-define(START_TIMEOUT, 10000).
-define(START_POLL, 20).

-type handle() :: #{node := node(), port := port() | none}.

-spec open(etls_link:config()) -> {ok, handle()} | {error, term()}.
open(#{link := {cnode, Node}} = Config) ->
    case {is_alive(), Node} of
        {false, _} ->
            ?LOG_ERROR(
                "etls: a C-node can be reached by a node only: start the VM with -sname or -name",
                [],
                #{domain => [etls]}
            ),
            {error, not_alive};
        {true, spawn} ->
            Name = own_daemon(),
            Own = list_to_atom(Name),
            case await_predecessor(Name, Own, now_ms() + ?START_TIMEOUT) of
                ok -> start(Name, Own, Config);
                {error, Reason} -> {error, Reason}
            end;
        {true, _} ->
            case net_kernel:connect_node(Node) of
                true ->
                    true = monitor_node(Node, true),
                    {ok, #{node => Node, port => none}};
                _ ->
                    {error, {cannot_connect, Node}}
            end
    end.

%% The child before this one had the same name, and may still be going: then it has the name, and
%% could be taken for the new one.
await_predecessor(Name, Node, Until) ->
    [Alive, _Host] = string:split(Name, "@"),
    case erl_epmd:names({127, 0, 0, 1}) of
        {ok, Registered} -> await_name(lists:keymember(Alive, 1, Registered), Name, Node, Until);
        % The daemon starts without epmd or says why not.
        {error, _} -> await_name(false, Name, Node, Until)
    end.

await_name(false, _Name, Node, _Until) ->
    _ = erlang:disconnect_node(Node),
    ok;
await_name(true, Name, Node, Until) ->
    case now_ms() < Until of
        true ->
            receive
            after ?START_POLL -> await_predecessor(Name, Node, Until)
            end;
        false ->
            {error, {name_taken, Node}}
    end.

start(Name, Node, Config) ->
    Path = etls_link:executable(),
    Options = [
        {args, ["--cnode", Name, "--until-eof" | etls_link:flags(Config)]},
        {env, [{"ETLSD_COOKIE", atom_to_list(erlang:get_cookie())}]},
        binary,
        exit_status,
        hide
    ],
    try open_port({spawn_executable, Path}, Options) of
        Port -> await_start(Port, Node, now_ms() + ?START_TIMEOUT)
    catch
        error:Reason -> {error, {cannot_start_daemon, Path, Reason}}
    end.

%% The same for the VM's whole life: an atom each time would be one too many in the end. The host is
%% the loopback's name, in the kind of names that this node has.
own_daemon() ->
    Host =
        case net_kernel:longnames() of
            true -> "127.0.0.1";
            _ -> "localhost"
        end,
    "etlsd_" ++ os:getpid() ++ "@" ++ Host.

await_start(Port, Node, Until) ->
    case net_kernel:connect_node(Node) of
        true ->
            true = monitor_node(Node, true),
            {ok, #{node => Node, port => Port}};
        _ ->
            receive
                {Port, {exit_status, Status}} ->
                    {error, {exit_status, Status}};
                {'EXIT', Port, Reason} ->
                    {error, Reason}
            after ?START_POLL ->
                case now_ms() < Until of
                    true ->
                        await_start(Port, Node, Until);
                    false ->
                        true = port_close(Port),
                        {error, {cannot_connect, Node}}
                end
            end
    end.

now_ms() -> erlang:monotonic_time(millisecond).

-spec greeted(handle(), map()) -> ok.
greeted(_Handle, #{pid := Pid}) when is_pid(Pid) ->
    true = link(Pid),
    ok;
greeted(_Handle, _Hello) ->
    ok.

-spec request(
    handle(), etls_protocol:id(), etls_protocol:command(), etls_protocol:arguments()
) -> ok | {error, closed}.
request(Handle, Id, Command, Arguments) ->
    send(Handle, {request, Id, Command, Arguments}).

-spec lane(handle(), etls_protocol:lane_term()) -> ok | {error, closed}.
lane(Handle, {data, Conn, Data}) ->
    send(Handle, {data, Conn, whole(Data)});
lane(Handle, Term) ->
    send(Handle, Term).

%% Bulk comes as one piece of a large binary, which is not copied here.
whole([Piece]) when is_binary(Piece) -> Piece;
whole(Data) -> iolist_to_binary(Data).

%% Not with the connection made anew: that would be another session.
send(#{node := Node}, Term) ->
    case erlang:send({?REGISTERED_NAME, Node}, Term, [noconnect]) of
        ok -> ok;
        noconnect -> {error, closed}
    end.

%% The exit of a child that was connected shows in the connection's end, behind all it has said.
-spec event(handle(), term()) -> {said, etls_protocol:frame()} | {down, term()} | unknown.
event(#{node := Node}, {nodedown, Node}) ->
    {down, nodedown};
event(#{node := Node}, {'EXIT', Pid, Reason}) when is_pid(Pid), node(Pid) =:= Node ->
    {down, Reason};
event(_Handle, Term) ->
    case etls_protocol:message(Term) of
        {error, bad_frame} -> unknown;
        Said -> {said, Said}
    end.

%% A child ends; a node that others use as well answers. Not by what it answers to processes, whose
%% Id is a pair: that a socket is closed does not mean that the session has ended.
-spec await_stop(handle(), non_neg_integer()) -> ok.
await_stop(#{port := none, node := Node}, Timeout) ->
    receive
        {reply, Tag, ok} when is_integer(Tag) -> ok;
        {nodedown, Node} -> ok
    after Timeout -> ok
    end;
await_stop(#{port := Port}, Timeout) ->
    receive
        {Port, {exit_status, _}} -> ok;
        {'EXIT', Port, _} -> ok
    after Timeout -> ok
    end.

-spec close(handle()) -> ok.
close(#{node := Node, port := Port}) ->
    true = monitor_node(Node, false),
    case Port of
        none ->
            ok;
        _ ->
            try port_close(Port) of
                true -> ok
            catch
                error:badarg -> ok
            end
    end.
