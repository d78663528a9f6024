import { eventIdOf } from '../../domain/event-id.ts'
import type { EventRow } from '../../repositories/events/event-log.ts'

/** Where the resource of an event is read. */
function urlOf({ resource_type: type, resource_id: id, order_id: orderId }: EventRow): string {
  switch (type) {
    case 'refund':
      return `/orders/${orderId}`
    case 'payment':
      return '/orphans'
    case 'settlement':
      return '/settlements/files'
    case 'connection':
      return '/oauth/status'
    case 'terminal':
      return `/terminals?caja_id=${encodeURIComponent(id)}`
    case 'endpoint':
      return `/events/endpoints/${id}`
    default:
      return `/${type}s/${id}`
  }
}

/** An event in the form of the API: in the feed, and as it is sent to endpoints. */
export function viewEvent(event: EventRow) {
  const isOrder = event.resource_type === 'order'
  return {
    id: eventIdOf(event.id),
    type: event.type,
    at: event.at.toISOString(),
    client: event.client,
    sucursal_id: event.sucursal_id,
    caja_id: event.caja_id,
    resource: {
      type: event.resource_type,
      id: event.resource_id,
      url: urlOf(event),
      version: event.resource_version,
    },
    order_id: isOrder ? event.resource_id : event.order_id,
    changes: event.changes,
    data: event.data,
  }
}
