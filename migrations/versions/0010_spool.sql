-- How far the deliveries that a process kept on its disk, while this database was away, have been moved here.
CREATE TABLE spools (
    name  text   NOT NULL PRIMARY KEY,
    moved bigint NOT NULL
);
