/** The place of a reader in the feed: the position of the last event that it has. */
export type FeedCursor = {
  position: number
  /** The beginning of the id of that event, where it is known. After a restored backup another event has the position. */
  mark?: string | undefined
}

/** A cursor as it is given to readers: they keep it and do not look into it. */
export function feedCursorText({ position, mark }: FeedCursor): string {
  const parts = mark === undefined ? [position] : [position, mark]
  return Buffer.from(['1', ...parts].join(':')).toString('base64url')
}

/** The cursor of a text; undefined when it is none. */
export function cursorOf(text: string): FeedCursor | undefined {
  const found = /^1:(\d{1,15})(?::([0-9a-f]{8}))?$/.exec(Buffer.from(text, 'base64url').toString())
  return found ? { position: Number(found[1]), mark: found[2] } : undefined
}

/** The cursor at a position, with the event there, if there is one. */
export function cursorAt(position: number, id: string | null): FeedCursor {
  return id === null ? { position } : { position, mark: markOf(id) }
}

/** Whether the event that a reader saw last is the one at its position. One that was deleted since is not looked at. */
export function isOfThisFeed({ mark }: FeedCursor, idAtPosition: string | null): boolean {
  return mark === undefined || idAtPosition === null || markOf(idAtPosition) === mark
}

const markOf = (id: string) => id.slice(0, 8)
