"""Methods of the client for every route of the API, by noun.

Their parameters are those of the route: what its path does not name goes into the query.
"""
