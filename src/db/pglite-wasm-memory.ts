import { setFlagsFromString } from 'node:v8'
import { type PGlite, protocol } from '@electric-sql/pglite'

const { serialize } = protocol

/**
 * Functions compiled by V8's first compiler meanwhile are never optimized; 0 is an import, so no function is compiled
 * twice.
 */
const asFirstCompiled = '--wasm-tier-up-filter=0'
const asUsual = '--wasm-tier-up-filter=-1'

/** From now on this process runs WebAssembly from V8's first compiler: half the memory, for short work. */
export function compileOnce(): void {
  setFlagsFromString(asFirstCompiled)
}

/**
 * Keeps V8 from compiling the SQL parser a second time. That would take 600 MB for a second, for one function of 105
 * KB. Statements are prepared, so few are parsed. V8 decides this at a function's first call, so the first parsed
 * text is an empty statement; all else stays unchanged. A V8 without the option ignores it.
 * @param pglite just made, before it is ready: the first statements are its own.
 */
export function keepParserSmall(pglite: PGlite): void {
  pglite.execProtocolRawSync = (message) => {
    // Back to the method of its class.
    Reflect.deleteProperty(pglite, 'execProtocolRawSync')
    // The code that reads and answers messages is called here for the first time.
    pglite.execProtocolRawSync(serialize.sync())
    setFlagsFromString(asFirstCompiled)
    try {
      pglite.execProtocolRawSync(serialize.query(';'))
    } finally {
      setFlagsFromString(asUsual)
    }
    return pglite.execProtocolRawSync(message)
  }
}
