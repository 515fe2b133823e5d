%% The wire itself, on a link of the test's own: whatever terms a VM might send, sensible or not.
-module(etls_test_raw).

-export([start/0, start_node/1, greet/1, stop/1, ask/3, send/2, send_frame/2, pair/2, attached/2,
         next/2, data/3, came/3, exit_status/1]).

-include_lib("stdlib/include/assert.hrl").

-define(BOUND, 10000).

%% A daemon that has been greeted, on a port.
start() ->
    greet(open_port({spawn_executable, etls_test_daemon:etlsd()},
                      [{args, ["--port"]}, {packet, 4}, binary, exit_status])).

%% One that is a node, whose session the calling process owns.
start_node(Config) ->
    #{node := Node} = etls_test_daemon:start(Config),
    greet(Node).

greet(Link) ->
    {ok, _} = ask(Link, hello, #{protocol => etls_protocol:version()}),
    Link.

%% Ends it in the orderly way.
stop(Node) when is_atom(Node) ->
    ok = ask(Node, stop, #{}),
    etls_test_lib:eventually(fun() -> ?assertMatch(#{connections := 0, listeners := 0},
                                                   etls_test_lib:operator(Node, info)) end),
    ok;
stop(Port) ->
    send(Port, {request, 0, stop, #{}}),
    ?assertEqual(0, exit_status(Port)),
    ok.

exit_status(Port) ->
    receive
        {Port, {exit_status, Status}} -> Status;
        {Port, {data, _}} -> exit_status(Port)
    after ?BOUND -> error(still_running)
    end.

send(Node, Term) when is_atom(Node) ->
    {etlsd, Node} ! Term,
    ok;
send(Port, Term) ->
    send_frame(Port, term_to_binary(Term)).

send_frame(Port, Frame) ->
    true = port_command(Port, Frame),
    ok.

%% Other terms stay where they are.
ask(Port, Command, Arguments) ->
    Id = erlang:unique_integer([positive]),
    send(Port, {request, Id, Command, Arguments}),
    reply(Port, Id).

reply(Port, Id) ->
    next(Port, fun({reply, Told, Result}) when Told =:= Id -> {ok, Result};
                  (_) -> no
               end).

%% The first term that Wanted takes, {ok, Value}; those before and after it can still be asked for.
next(Port, Wanted) ->
    next(Port, Wanted, erlang:monotonic_time(millisecond) + ?BOUND, []).

next(Link, Wanted, Deadline, Passed) ->
    Left = max(0, Deadline - erlang:monotonic_time(millisecond)),
    receive
        {Link, {exit_status, Status}} ->
            error({daemon_ended, Status});
        Message ->
            Taken = case term(Link, Message) of
                        {ok, Term} -> Wanted(Term);
                        no -> no
                    end,
            case Taken of
                {ok, Value} ->
                    again(Passed),
                    Value;
                no -> next(Link, Wanted, Deadline, [Message | Passed])
            end
    after Left -> error({not_told, lists:reverse(Passed)})
    end.

term(Port, {Port, {data, Frame}}) -> {ok, binary_to_term(Frame)};
term(Node, Term) when is_atom(Node) -> {ok, Term};
term(_, _) -> no.

%% In front of what came meanwhile.
again(Passed) ->
    Later = etls_test_lib:flush(),
    _ = [self() ! Message || Message <- lists:reverse(Passed) ++ Later],
    ok.

%% {Client, Server}: two connections of the daemon that talk with each other, without lanes.
pair(Port, Certificate) ->
    Tls = #{certfile => list_to_binary(Certificate)},
    Local = {127, 0, 0, 1},
    {ok, #{listener := Listener, address := {_, Number}}} =
        ask(Port, listen, #{address => {Local, 0}, family => inet, tcp => #{}, tls => Tls}),
    send(Port, {request, accept, accept, #{listener => Listener}}),
    {ok, #{conn := Client}} =
        ask(Port, connect, #{host => Local, port => Number, family => any, tcp => #{}, tls => #{}}),
    {ok, #{conn := Server}} = reply(Port, accept),
    [send(Port, {request, {handshake, Conn}, handshake, #{conn => Conn, subject => Conn}})
     || Conn <- [Client, Server]],
    [{ok, _} = reply(Port, {handshake, Conn}) || Conn <- [Client, Server]],
    ok = ask(Port, close, #{listener => Listener}),
    {Client, Server}.

%% The same with link lanes, and the credit that each end got.
attached(Port, Certificate) ->
    {Client, Server} = pair(Port, Certificate),
    [{ok, #{credit := _}} = ask(Port, attach, #{conn => Conn}) || Conn <- [Client, Server]],
    {Client, Server}.

%% Size bytes that come for Conn, in however many pieces.
data(_Port, _Conn, 0) ->
    <<>>;
data(Port, Conn, Size) ->
    Piece = next(Port, fun({data, Told, Bytes}) when Told =:= Conn -> {ok, Bytes};
                          (_) -> no
                       end),
    ?assert(byte_size(Piece) =< Size),
    <<Piece/binary, (data(Port, Conn, Size - byte_size(Piece)))/binary>>.

%% Whatever data come for Conn until nothing has for Time.
came(Link, Conn, Time) ->
    receive
        Message ->
            case term(Link, Message) of
                {ok, {data, Conn, _} = Term} -> [Term | came(Link, Conn, Time)];
                _ -> came(Link, Conn, Time)
            end
    after Time -> []
    end.
