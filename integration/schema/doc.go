// SPDX-License-Identifier: Apache-2.0

// Package schema tests the configuration's JSON Schema with a validator of another project.
package schema
