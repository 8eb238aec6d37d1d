import { useQuery } from "@tanstack/react-query";
import { projectsQuery } from "@/api/queries";
import type { Project } from "@/pages/submit/queries";

/** A project by its name; without one, the first that the caller sees, for suggestions. */
export function useProjectNamed(name: string): Project | undefined {
  const projects = useQuery(projectsQuery).data;
  return projects?.find((each) => each.name === name) ?? projects?.[0];
}
