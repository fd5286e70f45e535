// SPDX-License-Identifier: Apache-2.0

// Package sharing lets readers of streams share watches (see [Watches]).
package sharing
