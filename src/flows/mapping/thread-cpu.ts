/** Processor time of this thread since its start, in milliseconds. */
export function threadCpuMs(): number {
  return milliseconds(process.threadCpuUsage())
}

export function milliseconds({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) / 1_000
}
