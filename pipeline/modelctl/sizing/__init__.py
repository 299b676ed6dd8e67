"""How much memory a model needs to be served: its KV cache, computed as the engine lays it out."""
