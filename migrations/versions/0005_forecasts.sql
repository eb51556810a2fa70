-- What listing all of a kind would come to, as it was last forecast: what a run that lists it all is held against.
CREATE TABLE forecasts (
    source    text             NOT NULL,
    kind      text             NOT NULL,
    at        timestamptz      NOT NULL,
    objects   bigint           NOT NULL,
    exact     boolean          NOT NULL,
    calls     bigint           NOT NULL,
    hours     double precision NOT NULL,
    gigabytes double precision NOT NULL,
    PRIMARY KEY (source, kind)
);
