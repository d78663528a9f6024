-- expand: the version before still writes per_second, and states that it learnt
-- How many requests a receiver takes is what its rateLimit says; nothing is learnt from its answers.
delete from destination_states where state = 'slowed';
