package zkserver

import "encoding/binary"

// Password returns the password of a session of a real ZooKeeper, which draws it from the session's id alone: so any
// session can be expired with CloseSession whose id is known.
func Password(session int64) []byte {
	// ZooKeeperServer.generatePasswd: new java.util.Random(id ^ superSecret).nextBytes(16 bytes).
	const superSecret, multiplier, mask = 0xB3415C00, 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(session) ^ superSecret ^ multiplier) & mask
	var password []byte
	for len(password) < 16 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
