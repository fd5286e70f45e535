// SPDX-License-Identifier: Apache-2.0

package batch

// Partition returns the partition that Kafka's Java clients choose for a key, if they are not configured otherwise:
// toPositive(murmur2(key)) % partitions, in BuiltInPartitioner.partitionForKey, in clients before 4.0 also in
// DefaultPartitioner. It panics if partitions is not positive.
func Partition(key string, partitions int32) int32 {
	if partitions <= 0 {
		panic("BUG: topic without partitions")
	}
	return (Murmur2(key) & 0x7fffffff) % partitions
}

// Murmur2 returns the hash of a key's bytes as org.apache.kafka.common.utils.Utils.murmur2 does: 32-bit MurmurHash2
// with a fixed seed.
func Murmur2(key string) int32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return int32(h)
}
