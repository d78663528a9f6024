/** Endpoints and consumers of events: a part of its own, for those who set up an ERP. */
import { createEvents as events } from './views/events.js'

export const laterViews = { events }
