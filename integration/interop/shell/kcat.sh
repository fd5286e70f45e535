#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints what a topic has, one line of JSON for each record. Arguments: brokers, topic.
exec kcat -b "$1" -t "$2" -C -o beginning -e -q -J
