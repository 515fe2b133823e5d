%% A TCP proxy between two TLS ends, to do to their bytes what no well-behaved peer does: hold them
%% back, put others between them, end one side with FIN or RST. Linked to the process that starts
%% it.
-module(etls_test_proxy).

-export([start/1, hold/2, held/2, release/2, inject/3, finish/2, reset/2, stop/1]).

%% Listens for one client and will carry it to 127.0.0.1:Port.
start(Port) ->
    Parent = self(),
    Tag = make_ref(),
    Proxy = spawn_link(fun() ->
                               {ok, Listener} = gen_tcp:listen(0, options()),
                               {ok, Own} = inet:port(Listener),
                               Parent ! {Tag, Own},
                               serve(Listener, Port)
                       end),
    receive {Tag, Own} -> {Proxy, Own} after 5000 -> error(timeout) end.

%% From now on bytes that come from Side (client | server) wait, held/2 says how many there are, and
%% release/2 sends them in one piece.
hold(Proxy, Side) -> call(Proxy, {hold, Side}).
held(Proxy, Side) -> call(Proxy, {held, Side}).
release(Proxy, Side) -> call(Proxy, {release, Side}).

%% Sends Bytes to Side as if the other one had sent them.
inject(Proxy, Side, Bytes) -> call(Proxy, {inject, Side, Bytes}).

%% Ends the TCP stream towards Side, by FIN; held bytes stay held.
finish(Proxy, Side) -> call(Proxy, {finish, Side}).

%% Ends the connection to Side by RST.
reset(Proxy, Side) -> call(Proxy, {reset, Side}).

stop(Proxy) ->
    unlink(Proxy),
    Monitor = monitor(process, Proxy),
    exit(Proxy, kill),
    receive {'DOWN', Monitor, process, Proxy, _} -> ok end.

options() ->
    [binary, {active, false}, {packet, raw}, {nodelay, true}, {ip, {127, 0, 0, 1}},
     {reuseaddr, true}, {exit_on_close, false}, {buffer, 65536}].

call(Proxy, Request) ->
    Ref = monitor(process, Proxy),
    Proxy ! {Ref, self(), Request},
    receive
        {Ref, Result} -> demonitor(Ref, [flush]), Result;
        {'DOWN', Ref, process, Proxy, Reason} -> error(Reason)
    after 5000 -> error(timeout)
    end.

serve(Listener, Port) ->
    {ok, Client} = gen_tcp:accept(Listener, 10000),
    {ok, Server} = gen_tcp:connect({127, 0, 0, 1}, Port, options(), 5000),
    ok = inet:setopts(Client, [{active, true}]),
    ok = inet:setopts(Server, [{active, true}]),
    loop(#{client => Client, server => Server, held => #{}}).

loop(#{client := Client, server := Server, held := Held} = State) ->
    receive
        {tcp, Client, Data} -> loop(carry(client, Data, State));
        {tcp, Server, Data} -> loop(carry(server, Data, State));
        {tcp_closed, Client} -> ended(client, State), loop(State);
        {tcp_closed, Server} -> ended(server, State), loop(State);
        {tcp_error, _, _} -> loop(State);
        {Ref, From, Request} ->
            {Result, Next} = handle(Request, Held, State),
            From ! {Ref, Result},
            loop(Next)
    end.

%% A FIN is carried over only where nothing is held: held bytes must not be overtaken.
ended(Side, #{held := Held} = State) ->
    case Held of
        #{Side := _} -> ok;
        #{} -> gen_tcp:shutdown(maps:get(other(Side), State), write)
    end.

carry(Side, Data, #{held := Held} = State) ->
    case Held of
        #{Side := Before} ->
            State#{held := Held#{Side := [Before, Data]}};
        #{} ->
            _ = gen_tcp:send(maps:get(other(Side), State), Data),
            State
    end.

handle({hold, Side}, Held, State) ->
    {ok, State#{held := Held#{Side => []}}};
handle({held, Side}, Held, State) ->
    {iolist_size(maps:get(Side, Held)), State};
handle({release, Side}, Held, State) ->
    {Bytes, Rest} = maps:take(Side, Held),
    {gen_tcp:send(maps:get(other(Side), State), Bytes), State#{held := Rest}};
handle({inject, Side, Bytes}, _Held, State) ->
    {gen_tcp:send(maps:get(Side, State), Bytes), State};
handle({finish, Side}, _Held, State) ->
    {gen_tcp:shutdown(maps:get(Side, State), write), State};
handle({reset, Side}, _Held, State) ->
    Socket = maps:get(Side, State),
    ok = inet:setopts(Socket, [{linger, {true, 0}}]),
    {gen_tcp:close(Socket), State}.

other(client) -> server;
other(server) -> client.
