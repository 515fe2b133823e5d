%% @private
%% Cipher suites in ssl's terms: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" as a map. Pure.
-module(etls_cipher).

-export([suite/1]).

-export_type([suite/0]).

-type suite() :: #{key_exchange := atom(), cipher := atom(), mac := atom(), prf := atom()}.

%% Of an IANA name; {error, unknown} where a part of it is none that OpenSSL 3 has.
-spec suite(binary()) -> {ok, suite()} | {error, unknown}.
suite(<<"TLS_", Name/binary>>) ->
    try
        case string:split(string:lowercase(Name), "_with_") of
            [KeyExchange, Rest] -> {ok, tls12(key_exchange(KeyExchange), parts(Rest))};
            [Rest] -> {ok, tls13(parts(Rest))}
        end
    catch
        throw:unknown -> {error, unknown}
    end;
suite(_) ->
    {error, unknown}.

%% ssl does not name SRP's hash, which is always SHA-1 (RFC 5054, 2.7).
key_exchange(<<"srp_sha">>) -> srp_anon;
key_exchange(<<"srp_sha_rsa">>) -> srp_rsa;
key_exchange(<<"srp_sha_dss">>) -> srp_dss;
key_exchange(Name) -> known(Name).

parts(Rest) -> string:split(Rest, "_", trailing).

tls13([Cipher, <<"sha", _/binary>> = Hash]) ->
    #{key_exchange => any, cipher => known(Cipher), mac => aead, prf => known(Hash)};
tls13([Prefix, Last]) ->
    ccm(any, Prefix, Last);
tls13(_) ->
    throw(unknown).

tls12(KeyExchange, [Cipher0, <<"sha", _/binary>> = Hash0]) ->
    Cipher = known(Cipher0),
    Hash = known(Hash0),
    case is_aead(Cipher) of
        true ->
            #{key_exchange => KeyExchange, cipher => Cipher, mac => aead, prf => Hash};
        false ->
            #{
                key_exchange => KeyExchange,
                cipher => Cipher,
                mac => Hash,
                prf => prf(Hash, KeyExchange)
            }
    end;
tls12(KeyExchange, [Prefix, Last]) ->
    ccm(KeyExchange, Prefix, Last);
tls12(_KeyExchange, _) ->
    throw(unknown).

%% CCM suites do not name their hash, which is SHA-256 (RFC 6655, 3); ssl calls it the default one
%% where the key exchange is not a PSK.
ccm(KeyExchange, Prefix, Last) ->
    Cipher = known(<<Prefix/binary, $_, Last/binary>>),
    is_aead(Cipher) orelse throw(unknown),
    #{key_exchange => KeyExchange, cipher => Cipher, mac => aead, prf => ccm_prf(KeyExchange)}.

ccm_prf(KeyExchange) when KeyExchange =:= rsa; KeyExchange =:= dhe_rsa -> default_prf;
ccm_prf(ecdhe_ecdsa) -> default_prf;
ccm_prf(_) -> sha256.

is_aead(Cipher) ->
    lists:member(Cipher, [
        aes_128_gcm, aes_256_gcm, aes_128_ccm, aes_256_ccm, aes_128_ccm_8, aes_256_ccm_8
    ]) orelse
        lists:member(Cipher, [
            chacha20_poly1305, aria_128_gcm, aria_256_gcm, camellia_128_gcm, camellia_256_gcm
        ]).

%% As ssl tells it: the suites that came before TLS 1.2 use the version's own.
prf(sha, _) -> default_prf;
prf(sha256, KeyExchange) when KeyExchange =:= rsa; KeyExchange =:= dhe_rsa -> default_prf;
prf(sha256, KeyExchange) when KeyExchange =:= dhe_dss -> default_prf;
prf(sha256, KeyExchange) when KeyExchange =:= psk; KeyExchange =:= dhe_psk -> default_prf;
prf(sha256, KeyExchange) when KeyExchange =:= rsa_psk -> default_prf;
prf(sha384, KeyExchange) when KeyExchange =:= psk; KeyExchange =:= dhe_psk -> default_prf;
prf(Hash, _) -> Hash.

known(Part) ->
    case lists:search(fun(Name) -> atom_to_binary(Name) =:= Part end, names()) of
        {value, Name} -> Name;
        false -> throw(unknown)
    end.

names() ->
    [sha, sha256, sha384, rsa, dhe_rsa, dhe_dss, dhe_psk, ecdhe_rsa, ecdhe_ecdsa, ecdhe_psk] ++
        [psk, rsa_psk, dh_anon, ecdh_anon] ++
        [aes_128_cbc, aes_256_cbc, aes_128_gcm, aes_256_gcm, aes_128_ccm, aes_256_ccm] ++
        [aes_128_ccm_8, aes_256_ccm_8, chacha20_poly1305, aria_128_gcm, aria_256_gcm, null] ++
        [camellia_128_cbc, camellia_256_cbc, camellia_128_gcm, camellia_256_gcm].
