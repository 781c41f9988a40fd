"""`wiresum bench turns`: what turns cost over an emulated circuit switch."""
