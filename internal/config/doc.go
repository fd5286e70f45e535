// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration file. A table has a line for each key: what it may be, its default, and what
// it is for; package rules reads a file by it and reports every problem at once. Rules about several keys are functions
// beside it. The reference, the example and the schemas of the configuration are made of the table, too.
//
// It looks at nothing but the file: whether a cluster, a broker or a file with a secret exists is found out by whoever
// uses them. No secret ever stands in a [Config]; it names the files and environment variables that hold them.
package config
