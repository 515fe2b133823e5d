%% @private
%% The one place where options are validated: a user's list in, the protocol's arguments and a
%% #stream{} out, or the first wrong option and what is wrong with it. Pure.
%%
%% Where an option is given twice the first one counts, as in proplists; all are checked.
-module(etls_options).

-export([connect/3, listen/2, set/1, names/1, cipher_filter/1]).
-export([check_timeout/1, check_length/1]).

-export_type([error/0, changes/0]).

-include("etls_internal.hrl").

-type error() :: {error, einval | {options, {Option :: term(), Reason :: term()}}}.
-type role() :: client | server.
-type validated() :: #{
    stream := #stream{}, arguments := etls_protocol:arguments(), linger := {boolean(), integer()}
}.
-type changes() :: #{stream := [{atom(), term()}], tcp := map()}.

%% TCP's bound for a socket buffer is the kernel's; this is only what fits the wire's int.
-define(MAX_INT, 16#7FFFFFFF).
-define(MAX_TIMEOUT, 16#FFFFFFFF).
-define(MAX_NAME, 255).
%% sun_path's 108 bytes, without the zero at its end.
-define(MAX_LOCAL_PATH, 107).
-define(MAX_CIPHERS, 65535).

%% The daemon gives the link up over a frame of more than 16 MiB (proto/PROTOCOL.md, 1); some of it
%% is for what comes with the arguments.
-define(MAX_ARGUMENTS, 16#1000000 - 4096).

%% Values longer than this are not repeated in an error.
-define(MAX_ECHO, 16).

%% --- connect ---------------------------------------------------------------------------------

-spec connect(term(), term(), term()) -> {ok, validated()} | error().
connect(Host, Port, Options) ->
    try
        Given = collect(Options, [stream, lane, tcp, connect_tcp, address, connect, tls, client]),
        Target = target(Host),
        Arguments = #{
            host => Target,
            port => check_port(Port, Target),
            family => maps:get(family, section(address, Given), any),
            tcp => maps:merge(section(tcp, Given), section(connect_tcp, Given)),
            tls => tls(Given, client)
        },
        Bound = add_present(bind, bind(Given), Arguments),
        Named = add_present(hostname, client_hostname(Target, Given), Bound),
        Complete = add_present(server_name, server_name(Target, Given), Named),
        {ok, validated(Given, Complete)}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

target({local, Path}) ->
    case path(Path) of
        invalid -> throw({?MODULE, einval});
        Binary -> {local, Binary}
    end;
target(Host) when is_tuple(Host) ->
    case inet:is_ip_address(Host) of
        true -> Host;
        false -> throw({?MODULE, einval})
    end;
target(Host) when is_atom(Host) ->
    target(atom_to_list(Host));
target(Host) ->
    Name = name(Host),
    Name =/= invalid orelse throw({?MODULE, einval}),
    case inet:parse_strict_address(binary_to_list(Name)) of
        {ok, Address} -> Address;
        {error, _} -> Name
    end.

check_port(0, {local, _}) -> 0;
check_port(Port, Target) when is_integer(Port), Port > 0, Port =< 65535, is_binary(Target) -> Port;
check_port(Port, {_, _, _, _}) when is_integer(Port), Port > 0, Port =< 65535 -> Port;
check_port(Port, Target) when is_integer(Port), Port > 0, Port =< 65535, size(Target) =:= 8 -> Port;
check_port(_, _) -> throw({?MODULE, einval}).

%% {verify, verify_peer} means the host connected to, as in ssl; {verify_type, verify_peer} checks
%% the chain alone unless a name is given, as in the originals.
client_hostname(Target, Given) ->
    Client = section(client, Given),
    Tls = section(tls, Given),
    case {Tls, Client} of
        {#{rfc2818_verification_hostname := Name}, _} -> Name;
        {#{verify := verify_peer}, #{server_name_indication := disable}} -> none;
        {#{verify := verify_peer}, #{server_name_indication := Name}} -> Name;
        {#{verify := verify_peer}, _} -> target_name(Target);
        _ -> none
    end.

target_name({local, _}) ->
    wrong(verify, hostname_required);
target_name(Address) when is_tuple(Address) ->
    list_to_binary(inet:ntoa(Address));
target_name(Name) ->
    without_root(Name).

server_name(Target, Given) ->
    case section(client, Given) of
        #{server_name_indication := disable} -> none;
        #{server_name_indication := Name} -> Name;
        _ when is_binary(Target) -> without_root(Target);
        _ -> none
    end.

%% "example.org." names the same host as "example.org", but certificates and SNI have no such dot.
without_root(Name) ->
    case byte_size(Name) - 1 of
        0 ->
            Name;
        Length ->
            case Name of
                <<Short:Length/binary, $.>> -> Short;
                _ -> Name
            end
    end.

bind(Given) ->
    Address = section(address, Given),
    case {Address, section(connect, Given)} of
        {#{ip := {local, Path}}, _} ->
            {local, Path};
        {#{ip := Ip}, Local} ->
            {check_family(ip_of(Ip, Address), Address), maps:get(port, Local, 0)};
        {_, #{port := Port}} ->
            {ip_of(any, Address), Port};
        _ ->
            none
    end.

%% --- listen ----------------------------------------------------------------------------------

-spec listen(term(), term()) -> {ok, validated()} | error().
listen(Port, Options) ->
    try
        Sections = [stream, lane, tcp, connect_tcp, listen_tcp, address, tls, server],
        Given = collect(Options, Sections),
        {Address, Family} = listen_address(Port, section(address, Given)),
        maps:is_key(certfile, section(tls, Given)) orelse wrong(certfile, required),
        Tcp = lists:foldl(
            fun(Section, Merged) -> maps:merge(Merged, section(Section, Given)) end,
            #{},
            [tcp, connect_tcp, listen_tcp]
        ),
        Arguments = #{
            address => Address,
            family => Family,
            tcp => Tcp,
            tls => tls(Given, server)
        },
        Hostname = maps:get(rfc2818_verification_hostname, section(tls, Given), none),
        {ok, validated(Given, add_present(hostname, Hostname, Arguments))}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

listen_address(Port, #{ip := {local, Path}} = Address) ->
    Port =:= 0 orelse throw({?MODULE, einval}),
    case Address of
        #{family := Family} when Family =/= local -> wrong(ip, contradicts_family);
        _ -> {{local, Path}, local}
    end;
listen_address(_Port, #{family := local}) ->
    wrong(local, path_required);
listen_address(Port, Address) when is_integer(Port), Port >= 0, Port =< 65535 ->
    case check_family(ip_of(maps:get(ip, Address, any), Address), Address) of
        Ip when tuple_size(Ip) =:= 4 -> {{Ip, Port}, inet};
        Ip -> {{Ip, Port}, inet6}
    end;
listen_address(_Port, _Address) ->
    throw({?MODULE, einval}).

ip_of(any, #{family := inet6}) -> {0, 0, 0, 0, 0, 0, 0, 0};
ip_of(any, _) -> {0, 0, 0, 0};
ip_of(loopback, #{family := inet6}) -> {0, 0, 0, 0, 0, 0, 0, 1};
ip_of(loopback, _) -> {127, 0, 0, 1};
ip_of(Ip, _) -> Ip.

check_family(Ip, #{family := inet}) when tuple_size(Ip) =/= 4 -> wrong(ip, contradicts_family);
check_family(Ip, #{family := inet6}) when tuple_size(Ip) =/= 8 -> wrong(ip, contradicts_family);
check_family(_Ip, #{family := local}) -> wrong(ip, contradicts_family);
check_family(Ip, _) -> Ip.

%% --- an open socket's options ----------------------------------------------------------------

%% For setopts: what changes in the VM and what in the daemon.
-spec set(term()) -> {ok, changes()} | error().
set(Options) ->
    try
        Given = collect(Options, [stream, tcp]),
        {ok, #{stream => maps:to_list(section(stream, Given)), tcp => section(tcp, Given)}}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% For getopts: which of the names are asked of whom.
-spec names(term()) -> {ok, #{stream := [atom()], tcp := [atom()]}} | error().
names(Names) ->
    try
        is_list_of(fun(_) -> true end, Names) orelse throw({?MODULE, einval}),
        Sections = [{section_of(Name), Name} || Name <- Names],
        {ok, #{
            stream => [Name || {stream, Name} <- Sections],
            tcp => lists:usort([Name || {tcp, Name} <- Sections])
        }}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

section_of(Name) ->
    Stream = [
        active, mode, packet, packet_size, exit_on_close, send_timeout, send_timeout_close, buffer,
        lane
    ],
    Tcp = [nodelay, keepalive, sndbuf, recbuf, linger, reuseaddr, ipv6_v6only],
    case {lists:member(Name, Stream), lists:member(Name, Tcp)} of
        {true, _} -> stream;
        {_, true} -> tcp;
        _ -> wrong(shown(Name), unknown)
    end.

%% --- what OpenSSL has ------------------------------------------------------------------------

%% A cipher string by itself.
-spec cipher_filter(term()) -> {ok, binary()} | error().
cipher_filter(Filter) ->
    try
        {tls, ciphers, Ciphers} = checked(ciphers, Filter),
        {ok, Ciphers}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% --- reading a list of options ---------------------------------------------------------------

%% Section => #{Key => Value}.
collect(Options, Allowed) ->
    is_list_of(fun(_) -> true end, Options) orelse throw({?MODULE, einval}),
    Check = fun(Option, Given) ->
        {Name, Value} = pair(Option),
        {Section, Key, Checked} = checked(Name, Value),
        lists:member(Section, Allowed) orelse wrong(Name, misplaced(Section, Allowed)),
        Present = section(Section, Given),
        Given#{Section => maps:merge(#{Key => Checked}, Present)}
    end,
    lists:foldl(Check, #{}, Options).

section(Section, Given) -> maps:get(Section, Given, #{}).

pair({Name, Value}) -> {Name, Value};
pair(Mode) when Mode =:= binary; Mode =:= list -> {mode, Mode};
pair(Family) when Family =:= inet; Family =:= inet6; Family =:= local -> {family, Family};
pair(Other) -> wrong(shown(Other), unknown).

misplaced(client, _) -> client_only;
misplaced(server, _) -> server_only;
misplaced(connect, _) -> client_only;
misplaced(listen_tcp, _) -> server_only;
misplaced(_, _) -> not_settable.

checked(Name, Value) ->
    case check(Name, Value) of
        {Section, Checked} -> {Section, Name, Checked};
        {Section, Key, Checked} -> {Section, Key, Checked};
        invalid -> wrong(Name, {invalid, shown(Value)});
        not_a_path -> wrong(Name, not_a_path);
        secret -> wrong(Name, invalid);
        unknown -> wrong(shown(Name), unknown)
    end.

-spec wrong(term(), term()) -> no_return().
wrong(Option, Reason) -> throw({?MODULE, {options, {Option, Reason}}}).

%% Certificates and keys given in the wrong place must not end up in a log.
shown(Value) when is_atom(Value); is_integer(Value); is_float(Value) -> Value;
shown(Value) when is_binary(Value), byte_size(Value) =< ?MAX_ECHO -> Value;
shown(Value) ->
    case erts_debug:flat_size(Value) =< 2 * ?MAX_ECHO andalso not is_binary(Value) of
        true -> shown_term(Value);
        false -> '...'
    end.

shown_term(Tuple) when is_tuple(Tuple) -> list_to_tuple([shown(E) || E <- tuple_to_list(Tuple)]);
shown_term([Head | Tail]) -> [shown(Head) | shown(Tail)];
shown_term([]) -> [];
shown_term(_) -> '...'.

%% --- one clause per option and legal shape ---------------------------------------------------

%% stream: the VM's side
check(active, Value) when is_boolean(Value); Value =:= once -> {stream, Value};
check(active, Count) when is_integer(Count), Count >= -32768, Count =< 32767 -> {stream, Count};
check(mode, Mode) when Mode =:= binary; Mode =:= list -> {stream, Mode};
check(packet, 0) -> {stream, raw};
check(packet, Type) -> valid(stream, etls_packet:is_type(Type), Type);
check(packet_size, Size) when is_integer(Size), Size >= 0, Size =< ?MAX_INT -> {stream, Size};
check(exit_on_close, Flag) when is_boolean(Flag) -> {stream, Flag};
check(send_timeout, Timeout) -> valid(stream, is_timeout(Timeout), Timeout);
check(send_timeout_close, Flag) when is_boolean(Flag) -> {stream, Flag};
check(buffer, Size) when is_integer(Size), Size > 0, Size =< ?MAX_INT -> {stream, Size};
%% lane: the VM's side as well, but for a connection's whole life
check(lane, Choice) when Choice =:= auto; Choice =:= local; Choice =:= link -> {lane, Choice};
%% tcp: the daemon's socket
check(nodelay, Flag) when is_boolean(Flag) -> {tcp, Flag};
check(keepalive, Flag) when is_boolean(Flag) -> {tcp, Flag};
check(sndbuf, Size) when is_integer(Size), Size > 0, Size =< ?MAX_INT -> {tcp, Size};
check(recbuf, Size) when is_integer(Size), Size > 0, Size =< ?MAX_INT -> {tcp, Size};
check(linger, {Flag, Seconds}) when
    is_boolean(Flag), is_integer(Seconds), Seconds >= 0, Seconds =< 65535
->
    {tcp, {Flag, Seconds}};
check(reuseaddr, Flag) when is_boolean(Flag) -> {connect_tcp, Flag};
check(ipv6_v6only, Flag) when is_boolean(Flag) -> {connect_tcp, Flag};
check(backlog, Length) when is_integer(Length), Length >= 0, Length =< ?MAX_INT ->
    {listen_tcp, Length};
%% addresses
check(family, Family) when Family =:= inet; Family =:= inet6; Family =:= local ->
    {address, Family};
check(Name, Address) when Name =:= ip; Name =:= ifaddr -> check_ip(Address);
check(port, Port) when is_integer(Port), Port >= 0, Port =< 65535 -> {connect, Port};
%% TLS
check(versions, [_ | _] = Versions) ->
    valid(tls, is_list_of(fun is_version/1, Versions), Versions);
check(Name, Verify) when
    Name =:= verify orelse Name =:= verify_type,
    Verify =:= verify_peer orelse Verify =:= verify_none
->
    {tls, Verify};
check(fail_if_no_peer_cert, Flag) when is_boolean(Flag) -> {server, Flag};
check(verify_client_once, Flag) when is_boolean(Flag) -> {server, Flag};
check(rfc2818_verification_hostname, Name) -> check_name(tls, Name);
check(server_name_indication, disable) -> {client, disable};
check(server_name_indication, Name) -> check_name(client, Name);
check(Name, Certificates) when Name =:= cacerts; Name =:= crls; Name =:= chain ->
    case is_list_of(fun is_certificate/1, Certificates) of
        true -> {tls, [der_or_pem(Certificate) || Certificate <- Certificates]};
        false -> secret
    end;
check(Name, Path) when Name =:= certfile; Name =:= keyfile; Name =:= cacertfile ->
    check_file(Path);
check(ciphers, Ciphers) -> check_ciphers(Ciphers);
check(alpn_advertised_protocols, Protocols) -> check_protocols(client, Protocols);
check(alpn_preferred_protocols, Protocols) -> check_protocols(server, Protocols);
check(Name, _Value) ->
    case lists:member(Name, names()) of
        true -> invalid;
        false -> unknown
    end.

%% The options above whose clauses do not take every value.
names() ->
    [active, mode, packet_size, exit_on_close, send_timeout_close, buffer, lane, nodelay] ++
        [keepalive] ++
        [sndbuf, recbuf, linger, reuseaddr, ipv6_v6only, backlog, family, port, versions] ++
        [verify, verify_type, fail_if_no_peer_cert, verify_client_once].

valid(Section, true, Value) -> {Section, Value};
valid(_Section, false, _Value) -> invalid.

is_version(Version) -> Version =:= 'tlsv1.2' orelse Version =:= 'tlsv1.3'.

is_timeout(infinity) -> true;
is_timeout(Timeout) -> is_integer(Timeout) andalso Timeout >= 0 andalso Timeout =< ?MAX_TIMEOUT.

%% public_key's combined form, as public_key:cacerts_get/0 gives it, is taken too.
is_certificate(Binary) when is_binary(Binary) -> true;
is_certificate({cert, Der, _}) -> is_binary(Der);
is_certificate(_) -> false.

der_or_pem({cert, Der, _}) -> Der;
der_or_pem(Binary) -> Binary.

is_list_of(Is, [Head | Tail]) -> Is(Head) andalso is_list_of(Is, Tail);
is_list_of(_Is, []) -> true;
is_list_of(_Is, _) -> false.

check_ip(Special) when Special =:= any; Special =:= loopback ->
    {address, ip, Special};
check_ip({local, Path}) ->
    case path(Path) of
        invalid -> invalid;
        Binary -> {address, ip, {local, Binary}}
    end;
check_ip(Address) ->
    case inet:is_ip_address(Address) of
        true -> {address, ip, Address};
        false -> invalid
    end.

check_name(Section, Name) ->
    case name(Name) of
        invalid -> invalid;
        Binary -> {Section, Binary}
    end.

%% A host name or an address in text.
name(Name) when is_binary(Name); is_list(Name) ->
    try unicode:characters_to_binary(Name) of
        <<_, _/binary>> = Binary when byte_size(Binary) =< ?MAX_NAME ->
            case [Char || <<Char>> <= Binary, Char =< $\s] of
                [] -> Binary;
                _ -> invalid
            end;
        _ ->
            invalid
    catch
        error:badarg -> invalid
    end;
name(_) ->
    invalid.

%% The address of an AF_UNIX socket. Not made absolute: its length is limited, and an abstract one
%% begins with a zero.
path(<<First, _/binary>> = Path) when byte_size(Path) =< ?MAX_LOCAL_PATH ->
    case First =:= 0 orelse binary:match(Path, <<0>>) =:= nomatch of
        true -> Path;
        false -> invalid
    end;
path([_ | _] = Path) ->
    try unicode:characters_to_binary(Path) of
        Binary when is_binary(Binary) -> path(Binary);
        _ -> invalid
    catch
        error:badarg -> invalid
    end;
path(_) ->
    invalid.

%% The daemon reads files from its own working directory.
check_file(Path) when is_binary(Path); is_list(Path) ->
    try native(filename:absname(Path)) of
        Binary when is_binary(Binary), Path =/= "", Path =/= <<>> ->
            IsPem = binary:match(Binary, <<"-----BEGIN">>) =/= nomatch,
            IsName = binary:match(Binary, <<0>>) =:= nomatch,
            case IsName of
                _ when IsPem -> not_a_path;
                true -> {tls, Binary};
                false -> secret
            end;
        _ ->
            secret
    catch
        error:_ -> secret
    end;
check_file(_) ->
    secret.

native(Path) when is_binary(Path) -> Path;
native(Path) -> unicode:characters_to_binary(Path, unicode, file:native_name_encoding()).

check_ciphers([Char | _] = Ciphers) when is_integer(Char) ->
    ciphers([Ciphers]);
check_ciphers(Ciphers) when is_binary(Ciphers) ->
    ciphers([Ciphers]);
check_ciphers([_ | _] = Ciphers) ->
    ciphers(Ciphers);
check_ciphers(_) ->
    invalid.

ciphers(Names) ->
    try
        Binaries = [iolist_to_binary(Name) || Name <- Names],
        Ciphers = iolist_to_binary(lists:join($:, Binaries)),
        IsText = binary:match(Ciphers, <<0>>) =:= nomatch,
        IsGood = IsText andalso byte_size(Ciphers) =< ?MAX_CIPHERS,
        valid(tls, IsGood andalso not lists:member(<<>>, Binaries), Ciphers)
    catch
        error:_ -> invalid
    end.

%% RFC 7301, 3.1: each name has 1 to 255 bytes, and the list's length is told in two.
check_protocols(Section, [_ | _] = Protocols) ->
    IsName = fun(Name) -> is_binary(Name) andalso Name =/= <<>> andalso byte_size(Name) < 256 end,
    case is_list_of(IsName, Protocols) of
        true ->
            Bytes = lists:sum([byte_size(Name) + 1 || Name <- Protocols]),
            case Bytes =< 65535 of
                true -> {Section, alpn, Protocols};
                false -> invalid
            end;
        false ->
            invalid
    end;
check_protocols(_Section, _) ->
    invalid.

%% --- what the options amount to --------------------------------------------------------------

validated(Given, Arguments) ->
    erlang:external_size(Arguments) =< ?MAX_ARGUMENTS orelse wrong(longest(Given), too_long),
    #{
        stream => stream(maps:merge(section(stream, Given), section(lane, Given))),
        arguments => Arguments,
        linger => maps:get(linger, section(tcp, Given), {false, 0})
    }.

%% Only among the TLS options are there any without a limit of their own.
longest(Given) ->
    Tls = maps:to_list(section(tls, Given)),
    {_, Name} = lists:max([{erlang:external_size(Value), Option} || {Option, Value} <- Tls]),
    Name.

stream(Given) ->
    Default = #stream{},
    #stream{
        active = maps:get(active, Given, Default#stream.active),
        mode = maps:get(mode, Given, Default#stream.mode),
        packet = maps:get(packet, Given, Default#stream.packet),
        packet_size = maps:get(packet_size, Given, Default#stream.packet_size),
        exit_on_close = maps:get(exit_on_close, Given, Default#stream.exit_on_close),
        send_timeout = maps:get(send_timeout, Given, Default#stream.send_timeout),
        send_timeout_close =
            maps:get(send_timeout_close, Given, Default#stream.send_timeout_close),
        buffer = maps:get(buffer, Given, Default#stream.buffer),
        lane = maps:get(lane, Given, Default#stream.lane)
    }.

tls(Given, Role) ->
    Tls = section(tls, Given),
    Files = maps:with(
        [versions, cacerts, crls, chain, certfile, keyfile, cacertfile, ciphers], Tls
    ),
    OfRole = role_options(section(Role, Given), Role),
    add_present(verify, verify(Tls), maps:merge(Files, OfRole)).

-spec role_options(map(), role()) -> map().
role_options(Given, client) -> maps:with([alpn], Given);
role_options(Given, server) -> Given.

verify(#{verify := Same, verify_type := Same}) -> verify_mode(Same);
verify(#{verify := _, verify_type := _}) -> wrong(verify, contradicts_verify_type);
verify(#{verify := Verify}) -> verify_mode(Verify);
verify(#{verify_type := Verify}) -> verify_mode(Verify);
verify(_) -> none.

verify_mode(verify_peer) -> peer;
%% The protocol's own default.
verify_mode(verify_none) -> none.

add_present(_Key, none, Map) -> Map;
add_present(Key, Value, Map) -> Map#{Key => Value}.

%% --- other arguments -------------------------------------------------------------------------

-spec check_timeout(term()) -> ok | {error, einval}.
check_timeout(Timeout) ->
    case is_timeout(Timeout) of
        true -> ok;
        false -> {error, einval}
    end.

%% recv's length.
-spec check_length(term()) -> ok | {error, einval | enomem}.
check_length(Length) when is_integer(Length), Length >= 0, Length =< ?MAX_INT -> ok;
check_length(Length) when is_integer(Length), Length > ?MAX_INT -> {error, enomem};
check_length(_) -> {error, einval}.
