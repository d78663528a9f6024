/** Collects small writes that no request should wait for, and writes them together a moment later. */
type BatchingWriter = {
  /** Schedules a write. */
  later(): void
  /** Writes what is pending now, for a reader that needs it. Never rejects. */
  flush(): Promise<void>
}

type BatchingWriterOptions = {
  /** For the log. */
  name: string
  /** How long a write waits for others. A crash loses what waits. */
  afterMs: number
  isEmpty(): boolean
  /** Takes all that is pending, and writes it. `retryAfterMs`: some of it is still pending, to be written later. */
  write(): Promise<{ retryAfterMs: number } | undefined>
  log: { warn(fields: object, message: string): void }
}

/** The caller stores what is pending; one write runs at a time. A failed write is logged, and its batch is lost. */
export function createBatchingWriter(options: BatchingWriterOptions): BatchingWriter {
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const writeAfter = (ms: number) => {
    timer ??= setTimeout(() => void flush(), ms).unref()
  }

  const write = async () => {
    clearTimeout(timer)
    timer = undefined
    if (options.isEmpty()) return
    try {
      const left = await options.write()
      if (left) writeAfter(left.retryAfterMs)
    } catch (error) {
      options.log.warn({ err: error, writer: options.name }, 'batched write failed')
    }
  }

  const flush = () => {
    writing = writing.then(write)
    return writing
  }

  return { later: () => writeAfter(options.afterMs), flush }
}
