/** Reading something together with its tag, so that a change of it can be refused if another user changed it first. */
import { got } from "./client";

interface Answered<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

export interface Tagged<T> {
  value: T;
  /** For the header `If-Match` of a change. */
  tag: string;
}

export async function tagged<T>(answering: Promise<Answered<T>>): Promise<Tagged<T>> {
  let tag = "";
  const noting = answering.then((answered) => {
    tag = answered.response.headers.get("etag") ?? "";
    return answered;
  });
  return { value: await got(noting), tag };
}

/** The header of a change that is refused with 412 if the object is no longer the one that was read. */
export function ifMatch(tag: string): { "If-Match"?: string } {
  return tag === "" ? {} : { "If-Match": tag };
}
