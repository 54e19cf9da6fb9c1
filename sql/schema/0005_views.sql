-- The texts the public views were made from, so that they are made anew only where a text changed.
create table main.view_texts (name varchar not null, text varchar not null);
