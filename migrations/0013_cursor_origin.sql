-- Which source and field the position was read from: in another one it would hide everything behind it.
alter table flow_state add column cursor_origin text;
