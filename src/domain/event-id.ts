const prefix = 'evt_'
const shape = /^evt_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/

/** The id of an event, as programs get it. */
export function eventIdOf(uuid: string): string {
  return `${prefix}${uuid.replaceAll('-', '')}`
}

/** The stored form of an event's id; undefined when it is none. */
export function uuidOfEvent(id: string): string | undefined {
  const parts = shape.exec(id)
  return parts ? parts.slice(1).join('-') : undefined
}
