// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration file: defaults, a strict decode, and a validation that reports every problem
// of a file at once, each with its place in the file, its path, what is wrong and what is valid.
//
// It looks at nothing but the file: whether a cluster, a broker or a file with a secret exists is found out by whoever
// uses them. No secret ever stands in a [Config]; it names the files and environment variables that hold them.
package config
