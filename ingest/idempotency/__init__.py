"""``Idempotency-Key`` for any ASGI application: a request that is sent again isn't carried out again."""
