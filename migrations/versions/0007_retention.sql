-- What was written to history lately is counted for forecasts: in order of time, so a few blocks say where it is.
CREATE INDEX object_history_at ON object_history USING brin (at);
