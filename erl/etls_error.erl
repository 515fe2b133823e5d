%% @private
%% Reasons in words.
-module(etls_error).

-export([format/1]).

-spec format(term()) -> string().
format({error, Reason}) ->
    format(Reason);
format(closed) ->
    "the connection is closed";
format(timeout) ->
    "the time allowed ran out";
format(not_owner) ->
    "only the owner may do this";
format(not_started) ->
    "the application etls is not started";
format(no_peercert) ->
    "the peer sent no certificate";
format(protocol_not_negotiated) ->
    "no application protocol (ALPN) was negotiated";
format({tls_alert, {Alert, Text}}) ->
    words("TLS alert ~ts: ~ts", [Alert, text(Text)]);
format({options, {Option, Reason}}) ->
    words("option ~0tp: ~ts", [Option, option(Reason)]);
format({bad_request, Text}) ->
    words("the daemon refused the request: ~ts", [text(Text)]);
format({daemon, Reason}) ->
    words("the daemon failed: ~0tp", [Reason]);
format({cannot_start_daemon, Path, Reason}) ->
    words("cannot start ~ts: ~ts", [text(Path), posix(Reason)]);
format({bad_env, {Key, Value}}) ->
    words("the application's environment: ~0tp cannot be ~0tp", [Key, Value]);
format(nxdomain) ->
    "no such host";
format(Reason) when is_atom(Reason) ->
    posix(Reason);
format(Reason) ->
    words("~0tp", [Reason]).

option(required) -> "is required";
option(unknown) -> "there is no such option";
option(invalid) -> "not a valid value";
option({invalid, Value}) -> words("not a valid value: ~0tp", [Value]);
option(not_a_path) -> "wants the path of a file, not its content";
option(client_only) -> "is for clients only";
option(server_only) -> "is for servers only";
option(not_settable) -> "can only be given to connect or listen";
option(contradicts_family) -> "does not belong to the given address family";
option(contradicts_verify_type) -> "verify and verify_type contradict each other";
option(hostname_required) -> "there is no host name to verify";
option(path_required) -> "wants {ip, {local, Path}}";
option({Kind, Path}) when is_atom(Kind) -> words("~ts: ~ts", [text(Path), posix(Kind)]);
option(Reason) when is_atom(Reason) -> posix(Reason);
option(Reason) -> words("~0tp", [Reason]).

%% inet knows the POSIX words; it calls the others unknown.
posix(Reason) when is_atom(Reason) ->
    case inet:format_error(Reason) of
        "unknown POSIX error" ++ _ -> lists:flatten(string:replace(spelt(Reason), "_", " ", all));
        Words -> lists:flatten(Words)
    end;
posix(Reason) ->
    words("~0tp", [Reason]).

spelt(Reason) -> atom_to_list(Reason).

text(Text) when is_list(Text); is_binary(Text); is_atom(Text) -> Text;
text(Term) -> words("~0tp", [Term]).

words(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
