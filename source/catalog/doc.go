// SPDX-License-Identifier: Apache-2.0

// Package catalog follows which resources an API server serves, and which namespaces a cluster has.
package catalog
