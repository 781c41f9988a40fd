"""Aggregators and paths chosen together, at the highest common sending rate (InGo).

Every worker sends its gradient once, over one path, to one aggregator or to the parameter server; every aggregator in
use sends one sum to the server. All send at one rate f, and the question is how large f can be. Only the way up counts.

`flows` and `exact` answer it over all paths there are, `choices`, `relaxation`, `rounding` and `descent` over sets of
short ones, as the paper does. Equations are InGo's.
"""
