%% @private
%% The message tags that a socket speaks with. A socket is born with a face and keeps it, so that
%% another module name can offer the same sockets under its own tags.
-module(etls_face).

-export([tags/1]).

-export_type([face/0, tags/0]).

-type face() :: etls.
-type tags() :: {Data :: atom(), Closed :: atom(), Error :: atom(), Passive :: atom()}.

-spec tags(face()) -> tags().
tags(etls) -> {etls, etls_closed, etls_error, etls_passive}.
