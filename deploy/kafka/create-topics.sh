#!/bin/sh
# Creates Scouter's topics, both with the same number of partitions: spans and records of a trace
# have the same key and so the same partition number, and one collector reads both.
#
#   BOOTSTRAP=kafka:9092 ./create-topics.sh
#
# PARTITIONS   most collectors that can share the work (12); later changes move keys
# REPLICATION  copies of each partition (1; 3 where there are three brokers)
# KAFKA_TOPICS Kafka's topic tool
set -eu
: "${BOOTSTRAP:?set BOOTSTRAP to HOST:PORT of a broker}"
for topic in "${RECORDS_TOPIC:-scouter.records}" "${SPANS_TOPIC:-scouter.spans}"; do
  # Word splitting is wanted: the tool may be a command with arguments.
  # shellcheck disable=SC2086
  ${KAFKA_TOPICS:-/opt/kafka/bin/kafka-topics.sh} --bootstrap-server "$BOOTSTRAP" \
    --create --if-not-exists --topic "$topic" \
    --partitions "${PARTITIONS:-12}" --replication-factor "${REPLICATION:-1}"
done
