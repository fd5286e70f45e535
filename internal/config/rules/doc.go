// SPDX-License-Identifier: Apache-2.0

// Package rules reads a YAML file by a table of rules, with a line for each key: it fills a struct with defaults and
// with what the file has, and reports every problem of the file at once, each with its place, its path, what is wrong
// and what is valid. It does not know what the keys are about.
package rules
