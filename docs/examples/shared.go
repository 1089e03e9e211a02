// Looks up in the agent's shared memory (docs/PROTOCOL.md, "Shared memory"), else by its socket.
//
//	shared [SOCKET] TARGET...      such as /v1/resolve/services/db
//
// Go's atomic loads are stronger than the protocol needs: no fence is missing on any processor.
// Go reads CLOCK_BOOTTIME by a system call, the only one of a hit.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	magic       = 0x50414d4854524542
	headerBytes = 4096
	slotWords   = 8
	tagBytes    = 24
	maxKey      = 1024
	maxValue    = 16384
	probes      = 32
	tries       = 16
	getSeals    = 1034
	seals       = 0x2 | 0x4 | 0x10 // SHRINK, GROW, FUTURE_WRITE
	boottime    = 7
)

type outcome int

const (
	found outcome = iota
	unknown
	expired
	gone
)

type answer struct {
	code  int // 0, or that of an error
	tag   string
	value []byte
}

type memory struct {
	file  []byte
	words []uint64
	slots uint64
	arena uint64
	key   [2]uint64
}

func sipHash(key [2]uint64, data []byte) uint64 {
	v0, v1 := key[0]^0x736f6d6570736575, key[1]^0x646f72616e646f6d
	v2, v3 := key[0]^0x6c7967656e657261, key[1]^0x7465646279746573
	round := func() {
		v0 += v1
		v2 += v3
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 = bits.RotateLeft64(v0, 32) + v3
		v2 += v1
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	padded := append(append([]byte{}, data...), make([]byte, 8-len(data)%8)...)
	padded[len(padded)-1] = byte(len(data))
	for ; len(padded) > 0; padded = padded[8:] {
		word := binary.LittleEndian.Uint64(padded)
		v3 ^= word
		round()
		v0 ^= word
	}
	v2 ^= 0xff
	round()
	round()
	round()
	if hash := v0 ^ v1 ^ v2 ^ v3; hash != 0 {
		return hash
	}
	return 1
}

// A map behind a descriptor, which is closed.
func open(fd int) (*memory, error) {
	defer syscall.Close(fd)
	var stat, own syscall.Stat_t
	have, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), getSeals, 0)
	if errno != 0 || have&seals != seals {
		return nil, errors.New("the file may shrink or change")
	}
	if err := syscall.Fstat(fd, &stat); err != nil || stat.Size < headerBytes || stat.Size%8 != 0 {
		return nil, errors.New("no map")
	}
	file, err := syscall.Mmap(fd, 0, int(stat.Size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&file[0])), len(file)/8)
	m := &memory{file, words, words[3], words[4], [2]uint64{words[5], words[6]}}
	good := words[0] == magic && words[1] == 1 && words[2] == uint64(len(file)) &&
		m.slots > 0 && m.slots&(m.slots-1) == 0 && m.slots <= uint64(len(file))/64 &&
		m.arena == headerBytes+64*m.slots && m.arena <= uint64(len(file))
	// In another time namespace the clock differs.
	good = good && syscall.Stat("/proc/self/ns/time", &own) == nil && own.Ino == words[7]
	if !good {
		syscall.Munmap(file)
		return nil, errors.New("not a map for this process")
	}
	return m, nil
}

func (m *memory) load(at uint64) uint64 { return atomic.LoadUint64(&m.words[at]) }

func (m *memory) judge() outcome {
	if state := m.load(16); state != 1 {
		if state == 2 {
			return gone
		}
		return unknown
	}
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&now)), 0)
	if uint64(now.Nano()) < m.load(17) {
		return found
	}
	return expired
}

func (m *memory) copy(from, bytes uint64) []byte {
	out := make([]byte, 0, bytes+8)
	for at := from / 8; uint64(len(out)) < bytes; at++ {
		word := m.load(at)
		out = append(out, (*[8]byte)(unsafe.Pointer(&word))[:]...)
	}
	return out[:bytes]
}

// Whether the slot is the key's, and what it says; nil: ask the socket.
func (m *memory) readSlot(index uint64, key []byte) (bool, *answer) {
	at := headerBytes/8 + index*slotWords
	for i := 0; i < tries; i++ {
		sequence := m.load(at)
		if sequence&1 != 0 {
			continue
		}
		here, read := m.readBlock(m.load(at+2), m.load(at+3), m.load(at+4), key)
		holds := read != nil && m.judge() == found
		if m.load(at) == sequence {
			if !holds {
				read = nil
			}
			return here, read
		}
	}
	return true, nil
}

func (m *memory) readBlock(offset, lengths, status uint64, key []byte) (bool, *answer) {
	keyLen, valueLen := lengths&0xffffffff, lengths>>32
	if keyLen != uint64(len(key)) {
		return false, nil
	}
	size := uint64(len(m.words)) * 8
	room := (keyLen + 8) / 8 * 8
	if valueLen > maxValue || offset%8 != 0 || offset < m.arena || offset > size ||
		room+tagBytes+(valueLen+8)/8*8 > size-offset {
		return true, nil
	}
	if !bytes.Equal(m.copy(offset, keyLen), key) {
		return false, nil
	}
	if kind := status & 0xffffffff; kind != 1 && kind != 2 {
		return true, nil
	}
	tag := strings.TrimRight(string(m.copy(offset+room, tagBytes)), "\x00")
	return true, &answer{int(status >> 32), tag, m.copy(offset+room+tagBytes, valueLen)}
}

func (m *memory) read(target string) (outcome, *answer) {
	key := []byte(target)
	hash := sipHash(m.key, key)
	for i := uint64(0); i < probes && len(key) <= maxKey; i++ {
		index := (hash + i) & (m.slots - 1)
		have := m.load(headerBytes/8 + index*slotWords + 1)
		if have == 0 {
			break
		}
		if have == hash {
			here, read := m.readSlot(index, key)
			if read != nil {
				return found, read
			}
			if here {
				break
			}
		}
	}
	if why := m.judge(); why != found {
		return why, nil
	}
	return unknown, nil
}

// A new map of the agent.
func fetch(socket string) (*memory, error) {
	connection, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	fmt.Fprint(connection, "GET /v1/shared HTTP/1.1\r\nHost: berth\r\n\r\n")
	text, rights := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
	_, count, _, _, err := connection.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:count])
	if err != nil || len(messages) == 0 {
		return nil, errors.New("no descriptor came")
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(descriptors) == 0 {
		return nil, errors.New("no descriptor came")
	}
	return open(descriptors[0])
}

type client struct {
	socket  string
	http    http.Client
	memory  *memory
	expired time.Time // since when the lease was found to be over
}

// A killed agent has not retired its map: its lease stays over, whatever we ask for.
func (c *client) needsMap(why outcome) bool {
	if why != expired {
		c.expired = time.Time{}
	} else if c.expired.IsZero() {
		c.expired = time.Now()
	}
	return why == gone || why == expired && time.Since(c.expired) >= time.Second
}

// The HTTP status, or the code of an error from memory; the body; whether it came from memory.
func (c *client) get(target string) (int, []byte, bool, error) {
	why := gone
	if c.memory != nil {
		var read *answer
		if why, read = c.memory.read(target); read != nil {
			if read.code == 0 {
				return 200, read.value, true, nil
			}
			return read.code, read.value, true, nil
		}
	}
	if c.needsMap(why) {
		if c.memory != nil {
			syscall.Munmap(c.memory.file)
		}
		c.memory, _ = fetch(c.socket)
	}
	request, err := http.NewRequest("GET", "http://berth"+target, nil)
	if err != nil {
		return 0, nil, false, err
	}
	// The agent keeps in memory what readers of the memory have asked for.
	request.Header.Set("Prefer", "shared")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, false, err
}

func main() {
	targets, socket := os.Args[1:], os.Getenv("BERTH_SOCKET")
	if len(targets) > 0 && !strings.HasPrefix(targets[0], "/v1/") {
		socket, targets = targets[0], targets[1:]
	}
	if socket == "" {
		socket = "/run/berth/berth.sock"
	}
	c := &client{socket: socket, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}}
	for _, target := range targets {
		for i := 0; i < 2; i++ {
			status, body, fromMemory, err := c.get(target)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			line, _ := json.Marshal(map[string]any{"target": target, "status": status,
				"memory": fromMemory, "body": string(body)})
			fmt.Println(string(line))
		}
	}
}
