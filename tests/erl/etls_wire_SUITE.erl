%% The golden vectors of proto/vectors, from the VM's side: each `.etf' is the term in its `.term';
%% requests are what etls_protocol encodes, replies and events are what it decodes. The daemon's
%% side is tests/port/link/test_vectors.cpp. ETLS_WRITE_VECTORS=1 writes the requests anew.
-module(etls_wire_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([
    requests_are_their_vectors/1,
    replies_decode_to_their_vectors/1,
    lane_terms_are_their_vectors/1,
    the_version_is_the_specifications/1
]).

all() ->
    [
        requests_are_their_vectors,
        replies_decode_to_their_vectors,
        lane_terms_are_their_vectors,
        the_version_is_the_specifications
    ].

requests_are_their_vectors(_Config) ->
    Names = names("requests"),
    ?assert(length(Names) >= 15),
    lists:foreach(
        fun(Name) ->
            {request, Id, Command, Arguments} = Term = term("requests", Name),
            Encoded = etls_protocol:request(Id, Command, Arguments),
            os:getenv("ETLS_WRITE_VECTORS") =/= false andalso
                file:write_file(file("requests", Name, ".etf"), Encoded),
            % Maps may be written in another order by another OTP; they are the same term.
            ?assertEqual({Name, Term}, {Name, binary_to_term(Encoded)}),
            ?assertEqual({Name, Term}, {Name, binary_to_term(etf("requests", Name))})
        end,
        Names
    ).

replies_decode_to_their_vectors(_Config) ->
    _ = etls_protocol:known_atoms(),
    Names = names("replies"),
    ?assert(length(Names) >= 15),
    lists:foreach(
        fun(Name) ->
            Etf = etf("replies", Name),
            Term = term("replies", Name),
            ?assertEqual({Name, Term}, {Name, binary_to_term(Etf)}),
            ?assertNotMatch({_, {error, bad_frame}}, {Name, etls_protocol:decode(Etf)})
        end,
        Names
    ).

%% They go both ways.
lane_terms_are_their_vectors(_Config) ->
    Names = names("lanes"),
    ?assert(length(Names) >= 4),
    lists:foreach(
        fun(Name) ->
            Etf = etf("lanes", Name),
            Term = term("lanes", Name),
            ?assertEqual({Name, Term}, {Name, binary_to_term(Etf)}),
            ?assertNotMatch({_, {error, bad_frame}}, {Name, etls_protocol:decode(Etf)})
        end,
        Names
    ).

the_version_is_the_specifications(_Config) ->
    {ok, Text} = file:read_file(filename:join(root(), "proto/PROTOCOL.md")),
    {match, [Version]} =
        re:run(Text, "Protocol version \\*\\*([0-9]+)\\*\\*", [{capture, all_but_first, list}]),
    ?assertEqual(etls_protocol:version(), list_to_integer(Version)).

%% --- helpers ---------------------------------------------------------------------------------

names(Kind) ->
    Files = filelib:wildcard(filename:join([root(), "proto/vectors", Kind, "*.term"])),
    [filename:basename(File, ".term") || File <- Files].

term(Kind, Name) ->
    {ok, [Term]} = file:consult(file(Kind, Name, ".term")),
    Term.

etf(Kind, Name) ->
    {ok, Etf} = file:read_file(file(Kind, Name, ".etf")),
    Etf.

file(Kind, Name, Extension) ->
    filename:join([root(), "proto/vectors", Kind, Name ++ Extension]).

%% The nearest directory above this module that has the specification.
root() ->
    root(filename:dirname(filename:absname(code:which(?MODULE)))).

root(Directory) ->
    case filelib:is_regular(filename:join(Directory, "proto/PROTOCOL.md")) of
        true -> Directory;
        false when Directory =/= "/" -> root(filename:dirname(Directory))
    end.
