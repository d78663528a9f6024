-- How many requests a receiver takes is what its rateLimit says; nothing is learnt from its answers.
delete from destination_states where state = 'slowed';
alter table destination_states drop column per_second;
