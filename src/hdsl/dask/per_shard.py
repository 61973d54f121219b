"""One value per shard: of answers and of arguments."""


class PerShard(list):
    """One value per shard, in their order: what they answered, as futures, or are asked.

    Margins on a cluster are of this kind.
    """
