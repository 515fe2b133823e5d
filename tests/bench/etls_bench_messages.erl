%% Small messages: requests of so many bytes, each answered by as many, over 1, 10 and 100
%% connections at once, both ends in this VM; and handshakes, one after the other in 8 processes.
%% The same loops for each peer.
-module(etls_bench_messages).

-export([requests/3, handshakes/3]).

-define(BYTES, 64).
-define(CONNECTIONS, [1, 10, 100]).
-define(SECONDS, 2).
-define(CLIENTS, 8).
%% Nothing here takes longer between two messages; a stuck run must not hang a script.
-define(STUCK, 60_000).

-spec requests(etls_bench:load(), pos_integer(), [etls_bench:peer()]) -> ok.
requests(Load, Runs, Peers) ->
    io:format("~n~b-byte requests, answered by as many; ~b s each, ~b runs of each, interleaved~n",
              [?BYTES, ?SECONDS, Runs]),
    All = [{Count, Peer} || Count <- ?CONNECTIONS, Peer <- Peers],
    Figures = [{Each, requests_once(Each, Load)} || _ <- lists:seq(1, Runs), Each <- All],
    io:format("~n~n~-14s ~-20s ~9s ~8s ~9s ~9s ~11s ~11s~n",
              ["connections", "", "req/s", "x ssl", "p50 us", "p99 us", "VM CPU-us", "etlsd"]),
    lists:foreach(
        fun({Count, Peer} = Each) ->
            Of = fun(Key, Which) ->
                median([maps:get(Key, F) || {E, F} <- Figures, E =:= Which])
            end,
            Median = fun(Key) -> Of(Key, Each) end,
            Rate = Median(rate),
            io:format("~-14b ~-20s ~9b ~8s ~9.1f ~9.1f ~11.1f ~11.1f~n",
                      [Count, etls_bench:name(Peer), round(Rate),
                       ratio(Rate, lists:member(ssl, Peers) andalso Of(rate, {Count, ssl})),
                       Median(p50), Median(p99), Median(vm), Median(daemon)])
        end,
        All
    ).

-spec handshakes(etls_bench:load(), pos_integer(), [etls_bench:peer()]) -> ok.
handshakes(Load, Runs, Peers) ->
    io:format("~nfull handshakes, ~b at a time; ~b s each, ~b runs of each, interleaved~n",
              [?CLIENTS, ?SECONDS, Runs]),
    Figures = [{Peer, handshakes_once(Peer, Load)} || _ <- lists:seq(1, Runs), Peer <- Peers],
    io:format("~n~n~-20s ~9s ~8s ~11s ~11s~n", ["", "per s", "x ssl", "VM CPU-ms", "etlsd"]),
    Of = fun(Key, Peer) -> median([maps:get(Key, F) || {P, F} <- Figures, P =:= Peer]) end,
    lists:foreach(
        fun(Peer) ->
            Rate = Of(rate, Peer),
            io:format("~-20s ~9b ~8s ~11.3f ~11.3f~n",
                      [etls_bench:name(Peer), round(Rate),
                       ratio(Rate, lists:member(ssl, Peers) andalso Of(rate, ssl)),
                       Of(vm, Peer) / 1000, Of(daemon, Peer) / 1000])
        end,
        Peers
    ).

ratio(_Rate, false) -> "-";
ratio(Rate, Base) -> io_lib:format("~.2f", [Rate / Base]).

median(Values) ->
    lists:nth((length(Values) + 1) div 2, lists:sort(Values)).

%%% ---------------------------------------------------------------- requests

requests_once({Count, Peer}, Load) ->
    {ok, Listener} = etls_bench:listen(Peer, Load),
    {ok, {_, Port}} = etls_bench:sockname(Peer, Listener),
    Self = self(),
    Clients = [requesting_pair(Peer, Load, Listener, Port, Self) || _ <- lists:seq(1, Count)],
    {Figures, Latencies} = timed(Clients, fun lists:append/1),
    etls_bench:close(Peer, Listener),
    Sorted = lists:sort(Latencies),
    Number = length(Sorted),
    At = fun(Part) -> lists:nth(max(1, ceil(Number * Part)), Sorted) / 1000 end,
    io:format("."),
    per(Number, Figures#{p50 => At(0.5), p99 => At(0.99)}).

%% Connected before the next pair is, so that a backlog is no limit.
requesting_pair(Peer, Load, Listener, Port, Report) ->
    Request = crypto:strong_rand_bytes(?BYTES),
    Server = spawn_link(fun() ->
        {ok, Socket} = etls_bench:accept(Peer, Listener),
        Report ! {self(), ready},
        echo(Peer, Socket)
    end),
    Client = spawn_link(fun() ->
        {ok, Socket} = etls_bench:connect(Peer, Load, Port),
        Report ! {self(), ready},
        receive
            {until, End} -> Report ! {self(), result, ask(Peer, Socket, Request, End, [])}
        end,
        etls_bench:close(Peer, Socket)
    end),
    [ready(Each) || Each <- [Server, Client]],
    Client.

echo(Peer, Socket) ->
    case etls_bench:recv(Peer, Socket, ?BYTES) of
        {ok, Request} ->
            ok = etls_bench:send(Peer, Socket, Request),
            echo(Peer, Socket);
        {error, closed} ->
            etls_bench:close(Peer, Socket)
    end.

ask(Peer, Socket, Request, End, Latencies) ->
    From = erlang:monotonic_time(nanosecond),
    ok = etls_bench:send(Peer, Socket, Request),
    {ok, Request} = etls_bench:recv(Peer, Socket, ?BYTES),
    case erlang:monotonic_time(nanosecond) of
        To when To < End -> ask(Peer, Socket, Request, End, [To - From | Latencies]);
        To -> [To - From | Latencies]
    end.

%%% ---------------------------------------------------------------- handshakes

handshakes_once(Peer, Load) ->
    {ok, Listener} = etls_bench:listen(Peer, Load),
    {ok, {_, Port}} = etls_bench:sockname(Peer, Listener),
    Self = self(),
    Servers = [spawn_link(fun() -> serve(Peer, Listener) end) || _ <- lists:seq(1, 2 * ?CLIENTS)],
    Clients = [
        spawn_link(fun() ->
            Self ! {self(), ready},
            receive
                {until, End} -> Self ! {self(), result, shake(Peer, Load, Port, End, 0)}
            end
        end)
     || _ <- lists:seq(1, ?CLIENTS)
    ],
    [ready(Client) || Client <- Clients],
    {Figures, Number} = timed(Clients, fun lists:sum/1),
    [unlink(Server) || Server <- Servers],
    [exit(Server, kill) || Server <- Servers],
    etls_bench:close(Peer, Listener),
    io:format("."),
    per(Number, Figures).

serve(Peer, Listener) ->
    {ok, Socket} = etls_bench:accept(Peer, Listener),
    {error, closed} = etls_bench:recv(Peer, Socket, 0),
    etls_bench:close(Peer, Socket),
    serve(Peer, Listener).

shake(Peer, Load, Port, End, Done) ->
    {ok, Socket} = etls_bench:connect(Peer, Load, Port),
    etls_bench:close(Peer, Socket),
    case erlang:monotonic_time(nanosecond) < End of
        true -> shake(Peer, Load, Port, End, Done + 1);
        false -> Done + 1
    end.

%%% ---------------------------------------------------------------- both

ready(Process) ->
    receive
        {Process, ready} -> ok;
        {'EXIT', _, Reason} when Reason =/= normal -> error(Reason)
    after ?STUCK -> error(stuck)
    end.

timed(Clients, Gather) ->
    Before = etls_bench:cpu_seconds(),
    From = erlang:monotonic_time(nanosecond),
    [Client ! {until, From + ?SECONDS * 1_000_000_000} || Client <- Clients],
    Results = [result(Client) || Client <- Clients],
    Seconds = (erlang:monotonic_time(nanosecond) - From) / 1.0e9,
    {Vm, Daemon} = etls_bench:minus(etls_bench:cpu_seconds(), Before),
    {#{seconds => Seconds, vm => Vm, daemon => Daemon}, Gather(Results)}.

result(Client) ->
    receive
        {Client, result, Result} -> Result;
        {'EXIT', _, Reason} when Reason =/= normal -> error(Reason)
    after ?STUCK -> error(stuck)
    end.

%% Rates per second, CPU in microseconds each.
per(Number, #{seconds := Seconds, vm := Vm, daemon := Daemon} = Figures) ->
    Figures#{
        rate => Number / Seconds, vm => Vm * 1.0e6 / Number, daemon => Daemon * 1.0e6 / Number
    }.
