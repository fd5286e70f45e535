#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints what a topic has, and what comes. Arguments: brokers, topic.
exec kafka-console-consumer.sh --bootstrap-server "$1" --topic "$2" --from-beginning \
  --formatter-property print.partition=true --formatter-property print.offset=true \
  --formatter-property print.headers=true --formatter-property print.key=true
