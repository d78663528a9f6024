import { setFlagsFromString } from 'node:v8'

// By default V8 lets the old generation grow to a multiple before it collects it: a poll of a million records took 430
// MB instead of 280, with pauses of up to 165 ms instead of 63, and was not faster (`bench -- polls`). It is the first
// import, and not an option of Node, since a version of V8 without this flag ignores it here.
setFlagsFromString('--heap-growing-percent=100')
